import type { Readable } from 'node:stream';
import {
  type Algorithm,
  CHECKSUM_ALGORITHMS,
  type Checksum,
  type Digests,
  isChecksum,
  parseAlgorithm,
  RunningDigests,
} from '../lib/checksum.ts';
import { S3Error } from '../lib/errors.ts';
import type { ChunkSignatures } from '../signature/signature-v4.ts';
import type { ContentWriter } from '../store/content-writer.ts';
import type { ContentFiles } from '../store/contents.ts';
import { ChunkDecoder, type ChunkHandler } from './chunk-framing.ts';

/**
 * A body that was received completely and verified: in memory, or in a file that the database does not reference yet.
 */
export interface ReceivedBody {
  readonly size: number;
  /** Hex. */
  readonly md5: string;
  readonly checksum: Checksum | undefined;
  readonly data: Buffer | undefined;
  readonly writer: ContentWriter | undefined;
}

export interface ReceiveOptions {
  readonly signatures?: ChunkSignatures | undefined;
  /** The checksum to compute if the client declares none. */
  readonly algorithm?: Algorithm | undefined;
}

/** Receives a small body into memory. */
export async function receiveInMemory(
  source: Readable,
  declared: DeclaredBody,
  { signatures, algorithm }: ReceiveOptions = {},
): Promise<ReceivedBody & { readonly data: Buffer }> {
  const chunks: Buffer[] = [];
  const sink = { write: (bytes: Buffer) => chunks.push(bytes) > 0, onDrain: () => undefined };
  // Waiting for the end of an empty body would cost a turn of the event loop.
  const nothing = declared.length === 0 && !declared.framing;
  const trailer = nothing ? undefined : await pump(source, declared, sink, signatures);
  const data = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  const wanted = selectDigests(declared, algorithm);
  const digesting = new RunningDigests(wanted);
  digesting.update(data);
  const digests = digesting.digest();
  verify(declared, digests, trailer);
  return { size: data.length, md5: digests.md5, checksum: toChecksum(wanted, digests), data, writer: undefined };
}

/** Receives a body into a file. On failure the file is removed; on success the caller commits or discards it. */
export async function receiveInFile(
  source: Readable,
  declared: DeclaredBody,
  files: ContentFiles,
  { signatures, algorithm }: ReceiveOptions = {},
): Promise<ReceivedBody & { readonly writer: ContentWriter }> {
  const wanted = selectDigests(declared, algorithm);
  const writer = files.create(declared.length, wanted);
  try {
    const trailer = await pump(source, declared, writer, signatures);
    const digests = await writer.finish();
    verify(declared, digests, trailer);
    await writer.publish();
    return { size: declared.length, md5: digests.md5, checksum: toChecksum(wanted, digests), data: undefined, writer };
  } catch (error) {
    await files.discard(writer);
    throw error;
  }
}

interface SelectedDigests {
  readonly sha256: boolean;
  readonly checksum?: Algorithm;
}

function selectDigests({ sha256, checksum, trailer }: DeclaredBody, algorithm: Algorithm | undefined): SelectedDigests {
  const wanted = checksum?.algorithm ?? trailer ?? algorithm;
  return { sha256: sha256 !== undefined, ...(wanted && { checksum: wanted }) };
}

function toChecksum({ checksum: algorithm }: SelectedDigests, { checksum: value }: Digests): Checksum | undefined {
  return algorithm && value !== undefined ? { algorithm, value } : undefined;
}

function verify({ sha256, md5, checksum }: DeclaredBody, digests: Digests, trailer: string | undefined): void {
  if (sha256 !== undefined && sha256 !== digests.sha256) throw new S3Error('XAmzContentSHA256Mismatch');
  if (md5 !== undefined && md5 !== digests.md5) throw new S3Error('BadDigest');
  const expected = checksum?.value ?? trailer;
  if (expected !== undefined && expected !== digests.checksum) {
    throw new S3Error('BadDigest', 'The checksum that was sent does not match the body.');
  }
}

/** What the headers of a request declare about its body. */
export interface DeclaredBody {
  /** Bytes of the content, without chunk framing. */
  readonly length: number;
  /** `aws-chunked`, with or without a signature for each chunk. */
  readonly framing?: 'signed' | 'unsigned';
  /** Hex. */
  readonly sha256?: string;
  /** Hex. */
  readonly md5?: string;
  readonly checksum?: Checksum;
  /** The algorithm of the checksum in the trailer. */
  readonly trailer?: Algorithm;
}

type Header = (name: string) => string | undefined;

/** `payload` is the value of `x-amz-content-sha256` that was signed. */
export function readDeclaredBody(payload: string, header: Header): DeclaredBody {
  const framing = readFraming(payload);
  const length = readLength(header, framing !== undefined);
  const md5 = readMd5(header('content-md5'));
  const checksum = readBodyChecksum(header);
  const trailer = readTrailer(header('x-amz-trailer'));
  if (checksum && trailer) throw new S3Error('InvalidRequest', 'Send one checksum: as a header or as a trailer.');
  return {
    length,
    ...(framing && { framing }),
    ...(/^[0-9a-f]{64}$/.test(payload) && { sha256: payload }),
    ...(md5 && { md5 }),
    ...(checksum && { checksum }),
    ...(framing && trailer && { trailer }),
  };
}

/** The checksum of the body, if there is an `x-amz-checksum-*` header. */
function readBodyChecksum(header: Header): Checksum | undefined {
  return readSingleChecksum(header, isChecksum);
}

/** The checksum of an object made of parts: a composite checksum may end in the number of parts. */
export function readObjectChecksum(header: Header): Checksum | undefined {
  return readSingleChecksum(header, ({ algorithm, value }) =>
    isChecksum({ algorithm, value: value.replace(/-\d+$/, '') }),
  );
}

function readSingleChecksum(header: Header, isValid: (checksum: Checksum) => boolean): Checksum | undefined {
  const given = CHECKSUM_ALGORITHMS.flatMap((algorithm) => {
    const value = header(`x-amz-checksum-${algorithm}`);
    return value === undefined ? [] : [{ algorithm, value }];
  });
  const [first, second] = given;
  if (second) throw new S3Error('InvalidRequest', 'Send one checksum, not several.');
  if (first && !isValid(first)) {
    throw new S3Error('InvalidRequest', `Value for x-amz-checksum-${first.algorithm} header is invalid.`);
  }
  return first;
}

function readFraming(payload: string): DeclaredBody['framing'] {
  if (!payload.startsWith('STREAMING-')) return undefined;
  if (payload === 'STREAMING-UNSIGNED-PAYLOAD-TRAILER') return 'unsigned';
  if (payload === 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' || payload === 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER') {
    return 'signed';
  }
  throw new S3Error(
    'NotImplemented',
    `The payload ${payload} is not supported: use STREAMING-AWS4-HMAC-SHA256-PAYLOAD.`,
  );
}

function readLength(header: Header, framed: boolean): number {
  const text = framed ? header('x-amz-decoded-content-length') : header('content-length');
  if (text === undefined) {
    // A body of unknown length would have to be stored before its limits can be checked. S3 and MinIO reject it too.
    if (!framed && header('transfer-encoding') === undefined) return 0;
    throw new S3Error('MissingContentLength');
  }
  if (!/^\d{1,15}$/.test(text)) throw new S3Error('InvalidArgument', 'The length of the body is not a number.');
  return Number(text);
}

function readMd5(text: string | undefined): string | undefined {
  if (text === undefined) return undefined;
  const bytes = Buffer.from(text, 'base64');
  if (bytes.length !== 16 || bytes.toString('base64') !== text) throw new S3Error('InvalidDigest');
  return bytes.toString('hex');
}

function readTrailer(text: string | undefined): Algorithm | undefined {
  if (text === undefined) return undefined;
  const name = text.trim().toLowerCase();
  const algorithm = parseAlgorithm(
    name.startsWith('x-amz-checksum-') ? name.slice('x-amz-checksum-'.length) : undefined,
  );
  if (!algorithm) throw new S3Error('InvalidRequest', `The trailer ${text} is not a supported checksum.`);
  return algorithm;
}

/** Receives the bytes of a body. */
interface Sink {
  /** False: the caller waits for `onDrain` before it writes more. */
  write(bytes: Buffer): boolean;
  onDrain: () => void;
  /** True: `write` has copied the bytes when it returns. */
  readonly copies?: boolean;
}

/**
 * Frees the memory of a buffer at once. The garbage collector would wait for some 64 MB of buffers, by which every
 * process that receives a large body would then be larger.
 */
function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/**
 * Copies a body into a sink, without its chunk framing, no faster than the sink accepts it. Resolves to the checksum in
 * the trailer, if there is one. Throws if there are more or fewer bytes than declared, or if a chunk signature is
 * wrong.
 */
export function pump(
  source: Readable,
  declared: DeclaredBody,
  sink: Sink,
  signatures: ChunkSignatures | undefined,
): Promise<string | undefined> {
  const body = new Body(declared, sink, signatures);
  const framing = declared.framing ? new ChunkDecoder(body, declared.framing === 'signed') : undefined;
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  const end = (outcome: () => void) => {
    source.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone);
    sink.onDrain = () => undefined;
    outcome();
  };
  const onData = (bytes: Buffer) => {
    try {
      if (framing) framing.push(bytes);
      else body.data(bytes);
    } catch (error) {
      end(() => reject(error));
      return;
    }
    if (sink.copies) free(bytes);
    if (body.full) source.pause();
  };
  const onEnd = () => {
    try {
      framing?.end();
      const trailer = body.end();
      end(() => resolve(trailer));
    } catch (error) {
      end(() => reject(error));
    }
  };
  const onGone = () => end(() => reject(new S3Error('IncompleteBody', 'The connection ended before the body did.')));
  sink.onDrain = () => {
    body.full = false;
    source.resume();
  };
  source.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone);
  return promise;
}

class Body implements ChunkHandler {
  full = false;
  readonly #declared: DeclaredBody;
  readonly #sink: Sink;
  readonly #signatures: ChunkSignatures | undefined;
  readonly #trailers = new Map<string, string>();
  #received = 0;
  #trailerSigned = false;

  constructor(declared: DeclaredBody, sink: Sink, signatures: ChunkSignatures | undefined) {
    this.#declared = declared;
    this.#sink = sink;
    this.#signatures = signatures;
  }

  data(bytes: Buffer): void {
    this.#received += bytes.length;
    if (this.#received > this.#declared.length)
      throw new S3Error('IncompleteBody', 'The body is longer than declared.');
    this.#signatures?.data(bytes);
    if (!this.#sink.write(bytes)) this.full = true;
  }

  endOfChunk(signature: string | undefined): void {
    if (signature !== undefined) this.#signatures?.endOfChunk(signature);
  }

  trailer(name: string, value: string): void {
    if (name === 'x-amz-trailer-signature') {
      const lines = [...this.#trailers].map(([each, text]) => `${each}:${text}\n`).join('');
      this.#signatures?.trailer(lines, value);
      this.#trailerSigned = true;
    } else this.#trailers.set(name, value);
  }

  end(): string | undefined {
    if (this.#received < this.#declared.length) throw new S3Error('IncompleteBody');
    const { trailer } = this.#declared;
    if (!trailer) return undefined;
    if (this.#signatures && !this.#trailerSigned)
      throw new S3Error('SignatureDoesNotMatch', 'The trailer is not signed.');
    const value = this.#trailers.get(`x-amz-checksum-${trailer}`);
    if (value === undefined) throw new S3Error('IncompleteBody', 'The trailer with the declared checksum is missing.');
    return value;
  }
}
