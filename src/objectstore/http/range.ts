import { S3Error } from '../errors.ts';

/** Bytes of an object. */
export interface Range {
  readonly start: number;
  readonly length: number;
}

/**
 * RFC 9110 §14.1.2, one range. Undefined means the whole object: there is no range, it is not understood, or there are
 * several, which a server may ignore. Throws when the object has no such bytes.
 */
export function readRange(header: string | undefined, size: number): Range | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '');
  const [, first = '', last = ''] = match ?? [];
  if (!match || (first === '' && last === '')) return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw new S3Error('InvalidRange');
    return { start: size - length, length };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= size) throw new S3Error('InvalidRange');
  return { start, length: end - start + 1 };
}

/** `x-amz-copy-source-range`: stricter, both ends and within the object. */
export function readCopyRange(header: string | undefined, size: number): Range {
  if (header === undefined) return { start: 0, length: size };
  const match = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(header.trim());
  const [start, end] = [Number(match?.[1]), Number(match?.[2])];
  if (!match || start > end || end >= size) {
    throw new S3Error('InvalidArgument', `The range ${header} is not within the source, which has ${size} bytes.`);
  }
  return { start, length: end - start + 1 };
}
