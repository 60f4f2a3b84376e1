import type { Readable } from 'node:stream';
import { S3Error } from '../errors.ts';
import type { ChunkSignatures } from '../signature/chunk-signature.ts';
import type { Announced } from './announced.ts';
import { ChunkFraming, type FramedBody } from './chunk-framing.ts';

/** Where the bytes of a body go. */
export interface Sink {
  /** False: wait for `onDrain` before giving more. */
  write(bytes: Buffer): boolean;
  onDrain: () => void;
  /** It has copied what it was given when `write` returns. */
  readonly copies?: boolean;
}

/**
 * Frees the memory of bytes that nobody needs any more. The collector would only come after some 64 MB of them, which
 * every process that receives a large body would then be larger by.
 */
function free({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/**
 * Brings a body into a sink, free of its frames, no faster than the sink takes it. Resolves with the checksum that
 * followed it, if one did. Throws when there are more or fewer bytes than announced, or a chunk was not signed.
 */
export function pump(
  source: Readable,
  announced: Announced,
  sink: Sink,
  signatures: ChunkSignatures | undefined,
): Promise<string | undefined> {
  const body = new Body(announced, sink, signatures);
  const framing = announced.framing ? new ChunkFraming(body, announced.framing === 'signed') : undefined;
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

class Body implements FramedBody {
  full = false;
  readonly #announced: Announced;
  readonly #sink: Sink;
  readonly #signatures: ChunkSignatures | undefined;
  readonly #trailers = new Map<string, string>();
  #received = 0;
  #trailerSigned = false;

  constructor(announced: Announced, sink: Sink, signatures: ChunkSignatures | undefined) {
    this.#announced = announced;
    this.#sink = sink;
    this.#signatures = signatures;
  }

  data(bytes: Buffer): void {
    this.#received += bytes.length;
    if (this.#received > this.#announced.length)
      throw new S3Error('IncompleteBody', 'The body is longer than announced.');
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
    if (this.#received < this.#announced.length) throw new S3Error('IncompleteBody');
    const { trailer } = this.#announced;
    if (!trailer) return undefined;
    if (this.#signatures && !this.#trailerSigned)
      throw new S3Error('SignatureDoesNotMatch', 'The trailer is not signed.');
    const value = this.#trailers.get(`x-amz-checksum-${trailer}`);
    if (value === undefined) throw new S3Error('IncompleteBody', 'The announced checksum does not follow the body.');
    return value;
  }
}
