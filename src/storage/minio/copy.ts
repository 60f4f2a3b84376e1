import { all, readXml, textOf, writeXml } from '../../objectstore/index.ts';
import type { ObjectName, PlaceFrom } from '../object-store.ts';
import { Refusal } from './wire/refusal.ts';
import type { StoreAnswer } from './wire/requests.ts';
import { copySource, type S3 } from './wire/s3.ts';

/** What one request may copy. */
const LARGEST_COPY = 5 * 1024 ** 3;

/** Larger: fewer requests. Smaller: each is done before anybody on the way loses patience. */
const PART = 512 * 1024 ** 2;

/** A store copies about as fast as its disks write; half an hour is for the slowest. */
const DEADLINE = 30 * 60_000;

/** Copies within the store if the source has this eTag. The bytes do not leave it. */
export async function copyObject(
  from: PlaceFrom,
  to: ObjectName,
  { bytes, contentType }: { readonly bytes: number; readonly contentType: string | undefined },
  metadata: Readonly<Record<string, string>>,
  s3: S3,
  largest = LARGEST_COPY,
): Promise<void> {
  const path = `/${to.bucket}/${to.key}`;
  const source = { 'x-amz-copy-source': copySource(from), 'x-amz-copy-source-if-match': `"${from.eTag}"` };
  const description = {
    ...(contentType !== undefined && { 'content-type': contentType }),
    ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-amz-meta-${name}`, value])),
  };
  if (bytes > largest) return copyInParts({ path, source, description, bytes, part: Math.min(PART, largest) }, s3);
  const replace = { 'x-amz-metadata-directive': 'REPLACE', 'x-amz-tagging-directive': 'REPLACE' };
  const headers = { ...source, ...replace, ...description };
  // Sent again it would be another event.
  checked(await s3.send({ method: 'PUT', path, headers, deadline: DEADLINE, once: true }), path);
}

interface PartedCopy {
  readonly path: string;
  readonly source: Readonly<Record<string, string>>;
  readonly description: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly part: number;
}

async function copyInParts({ path, source, description, bytes, part }: PartedCopy, s3: S3): Promise<void> {
  const begun = await s3.send({ method: 'POST', path, query: { uploads: '' }, headers: description });
  const uploadId = textOf(readXml(begun.body.toString(), 'InitiateMultipartUploadResult'), 'UploadId') ?? '';
  try {
    const parts: { PartNumber: number; ETag: string }[] = [];
    for (let at = 0; at < bytes; at += part) {
      const PartNumber = parts.length + 1;
      const query = { partNumber: String(PartNumber), uploadId };
      const headers = { ...source, 'x-amz-copy-source-range': `bytes=${at}-${Math.min(at + part, bytes) - 1}` };
      const answer = checked(await s3.send({ method: 'PUT', path, query, headers, deadline: DEADLINE }), path);
      parts.push({ PartNumber, ETag: textOf(readXml(answer.body.toString(), 'CopyPartResult'), 'ETag') ?? '' });
    }
    const body = writeXml('CompleteMultipartUpload', { Part: parts });
    const query = { uploadId };
    checked(await s3.send({ method: 'POST', path, query, body, deadline: DEADLINE, once: true }), path);
  } catch (error) {
    const [, bucket = '', key = ''] = /^\/([^/]+)\/([^]*)$/.exec(path) ?? [];
    await s3.abortUpload({ bucket, key }, uploadId).catch(() => undefined);
    throw error;
  }
}

/** A store that takes its time says first that all is well, and then what is not. */
function checked(answer: StoreAnswer, path: string): StoreAnswer {
  const text = answer.body.toString();
  if (!text.includes('<Error>')) return answer;
  const reason = all({ name: '', text: '', children: [readXml(text.trim(), 'Error')] }, 'Error').map((error) =>
    textOf(error, 'Code'),
  );
  throw new Refusal(500, reason[0] ?? '', `to copy to ${path}`);
}
