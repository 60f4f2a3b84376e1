import type { Readable } from 'node:stream';
import { S3Error } from '../lib/errors.ts';
import type { ChunkSignatures } from '../signature/chunk-signature.ts';
import type { Announced } from './receive.ts';

/** Where the bytes of a body go. */
interface Sink {
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

/** What the frames of a body mean, in the order of the body. */
interface FramedBody {
  data(bytes: Buffer): void;
  /** After the data of each chunk, the empty last one too; with its signature where chunks are signed. */
  endOfChunk(signature: string | undefined): void;
  /** A line after the last chunk. The name is in lower case. */
  trailer(name: string, value: string): void;
}

/** A header of a chunk has at most 16 digits and a signature; a trailer a name and a digest. */
const LONGEST_LINE = 1024;

const LINE_FEED = 0x0a;

type State = 'header' | 'data' | 'after-data' | 'trailers' | 'done';

/**
 * Takes `aws-chunked` apart: `<hex length>[;chunk-signature=<64 hex>]\r\n<data>\r\n`, a chunk of length 0 as the last,
 * then lines `name:value`, then an empty line. It stands inside the body, whatever HTTP itself does with the body.
 */
export class ChunkFraming {
  readonly #body: FramedBody;
  readonly #signed: boolean;
  #state: State = 'header';
  #line = '';
  #left = 0;
  #signature: string | undefined;

  constructor(body: FramedBody, signed: boolean) {
    this.#body = body;
    this.#signed = signed;
  }

  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) at = this.#state === 'data' ? this.#takeData(bytes, at) : this.#takeLine(bytes, at);
  }

  /** The body is over: was it whole? The empty line at the end is not insisted on, since nothing depends on it. */
  end(): void {
    const whole = this.#state === 'done' || (this.#state === 'trailers' && this.#line === '');
    if (!whole) throw new S3Error('IncompleteBody', 'The body ends in the middle of its chunks.');
  }

  #takeData(bytes: Buffer, at: number): number {
    const end = Math.min(at + this.#left, bytes.length);
    this.#body.data(bytes.subarray(at, end));
    this.#left -= end - at;
    if (this.#left === 0) this.#state = 'after-data';
    return end;
  }

  #takeLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(LINE_FEED, at);
    const end = found < 0 ? bytes.length : found;
    if (this.#line.length + end - at > LONGEST_LINE) throw malformed('has a line that is too long');
    this.#line += bytes.toString('latin1', at, end);
    if (found < 0) return end;
    const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line;
    this.#line = '';
    this.#lineRead(line);
    return end + 1;
  }

  #lineRead(line: string): void {
    switch (this.#state) {
      case 'header':
        return this.#header(line);
      case 'after-data':
        if (line !== '') throw malformed('has a chunk that is longer than it says');
        this.#body.endOfChunk(this.#signature);
        this.#state = 'header';
        return;
      case 'trailers':
        if (line === '') this.#state = 'done';
        else this.#trailer(line);
        return;
      default:
        if (line !== '') throw malformed('goes on after its end');
    }
  }

  #header(line: string): void {
    const match = /^([0-9a-fA-F]{1,16})(?:;chunk-signature=([0-9a-f]{64}))?$/.exec(line);
    if (!match?.[1]) throw malformed('has a chunk that does not begin with its length');
    this.#signature = match[2];
    if (this.#signed && !this.#signature) throw malformed('has a chunk without signature');
    this.#left = Number.parseInt(match[1], 16);
    if (this.#left > 0) {
      this.#state = 'data';
      return;
    }
    this.#body.endOfChunk(this.#signature);
    this.#state = 'trailers';
  }

  #trailer(line: string): void {
    const colon = line.indexOf(':');
    if (colon < 1) throw malformed('has a trailer that is not name:value');
    this.#body.trailer(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
}

function malformed(why: string): S3Error {
  return new S3Error('IncompleteBody', `The body is not in the chunks that its headers announce: it ${why}.`);
}
