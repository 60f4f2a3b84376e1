import { S3Error } from '../errors.ts';
import { ALGORITHMS, type Algorithm, type Checksum, isChecksum, readAlgorithm } from './checksum.ts';

/** What the headers of a request say about its body. */
export interface Announced {
  /** Bytes of the object, without any framing. */
  readonly length: number;
  /** `aws-chunked`, with a signature for each chunk or without. */
  readonly framing?: 'signed' | 'unsigned';
  /** Hex. */
  readonly sha256?: string;
  /** Hex. */
  readonly md5?: string;
  readonly checksum?: Checksum;
  /** The algorithm of the checksum that follows the body. */
  readonly trailer?: Algorithm;
}

type Header = (name: string) => string | undefined;

/** `word` is the payload as it is signed: `x-amz-content-sha256`. */
export function readAnnounced(word: string, header: Header): Announced {
  const framing = framingOf(word);
  const length = lengthOf(header, framing !== undefined);
  const md5 = md5Of(header('content-md5'));
  const checksum = checksumIn(header);
  const trailer = trailerOf(header('x-amz-trailer'));
  if (checksum && trailer) throw new S3Error('InvalidRequest', 'Give one checksum: as a header or as a trailer.');
  return {
    length,
    ...(framing && { framing }),
    ...(/^[0-9a-f]{64}$/.test(word) && { sha256: word }),
    ...(md5 && { md5 }),
    ...(checksum && { checksum }),
    ...(framing && trailer && { trailer }),
  };
}

/** One of `x-amz-checksum-*`, if there is one. */
export function checksumIn(header: Header): Checksum | undefined {
  const given = ALGORITHMS.flatMap((algorithm) => {
    const value = header(`x-amz-checksum-${algorithm}`);
    return value === undefined ? [] : [{ algorithm, value }];
  });
  const [first, second] = given;
  if (second) throw new S3Error('InvalidRequest', 'Give one checksum, not several.');
  if (first && !isChecksum(first)) {
    throw new S3Error('InvalidRequest', `Value for x-amz-checksum-${first.algorithm} header is invalid.`);
  }
  return first;
}

function framingOf(word: string): Announced['framing'] {
  if (!word.startsWith('STREAMING-')) return undefined;
  if (word === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') return 'unsigned';
  if (word === 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' || word === 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER') {
    return 'signed';
  }
  throw new S3Error('NotImplemented', `The payload ${word} is not understood: use STREAMING-AWS4-HMAC-SHA256-PAYLOAD.`);
}

function lengthOf(header: Header, framed: boolean): number {
  const text = framed ? header('x-amz-decoded-content-length') : header('content-length');
  if (text === undefined) {
    // A body without length would have to be kept before anything is known of it; S3 and MinIO refuse it too.
    if (!framed && header('transfer-encoding') === undefined) return 0;
    throw new S3Error('MissingContentLength');
  }
  if (!/^\d{1,15}$/.test(text)) throw new S3Error('InvalidArgument', 'The length of the body is no number.');
  return Number(text);
}

function md5Of(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length !== 16 || bytes.toString('base64') !== text) throw new S3Error('InvalidDigest');
  return bytes.toString('hex');
}

function trailerOf(text: string | undefined): Algorithm | undefined {
  if (text === undefined) return undefined;
  const name = text.trim().toLowerCase();
  const algorithm = readAlgorithm(
    name.startsWith('x-amz-checksum-') ? name.slice('x-amz-checksum-'.length) : undefined,
  );
  if (!algorithm) throw new S3Error('InvalidRequest', `The trailer ${text} is not a checksum.`);
  return algorithm;
}
