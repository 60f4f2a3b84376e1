import { S3Error } from '../lib/errors.ts';

/** Receives the decoded parts of a chunked body, in their order. */
export interface ChunkHandler {
  data(bytes: Buffer): void;
  /** Called after the data of each chunk, also of the empty last one; with the signature if chunks are signed. */
  endOfChunk(signature: string | undefined): void;
  /** Called for each line after the last chunk. The name is in lower case. */
  trailer(name: string, value: string): void;
}

/** The header of a chunk has at most 16 digits and a signature; a trailer has a name and a digest. */
const LONGEST_LINE = 1024;

const LINE_FEED = 0x0a;

type State = 'header' | 'data' | 'after-data' | 'trailers' | 'done';

/**
 * Decodes `aws-chunked`: chunks `<hex length>[;chunk-signature=<64 hex>]\r\n<data>\r\n`, the last of length 0, then
 * lines `name:value`, then an empty line. This encoding is inside the body, independent of HTTP's own transfer
 * encoding.
 */
export class ChunkDecoder {
  readonly #body: ChunkHandler;
  readonly #signed: boolean;
  #state: State = 'header';
  #line = '';
  #left = 0;
  #signature: string | undefined;

  constructor(body: ChunkHandler, signed: boolean) {
    this.#body = body;
    this.#signed = signed;
  }

  push(bytes: Buffer): void {
    let at = 0;
    while (at < bytes.length) at = this.#state === 'data' ? this.#readData(bytes, at) : this.#readLine(bytes, at);
  }

  /** Called at the end of the body; throws if it is incomplete. The empty line at the end may be missing. */
  end(): void {
    const whole = this.#state === 'done' || (this.#state === 'trailers' && this.#line === '');
    if (!whole) throw new S3Error('IncompleteBody', 'The body ends in the middle of its chunks.');
  }

  #readData(bytes: Buffer, at: number): number {
    const end = Math.min(at + this.#left, bytes.length);
    this.#body.data(bytes.subarray(at, end));
    this.#left -= end - at;
    if (this.#left === 0) this.#state = 'after-data';
    return end;
  }

  #readLine(bytes: Buffer, at: number): number {
    const found = bytes.indexOf(LINE_FEED, at);
    const end = found < 0 ? bytes.length : found;
    if (this.#line.length + end - at > LONGEST_LINE) throw malformed('has a line that is too long');
    this.#line += bytes.toString('latin1', at, end);
    if (found < 0) return end;
    const line = this.#line.endsWith('\r') ? this.#line.slice(0, -1) : this.#line;
    this.#line = '';
    this.#onLine(line);
    return end + 1;
  }

  #onLine(line: string): void {
    switch (this.#state) {
      case 'header':
        return this.#onHeader(line);
      case 'after-data':
        if (line !== '') throw malformed('has a chunk that is longer than its declared length');
        this.#body.endOfChunk(this.#signature);
        this.#state = 'header';
        return;
      case 'trailers':
        if (line === '') this.#state = 'done';
        else this.#onTrailer(line);
        return;
      default:
        if (line !== '') throw malformed('has data after its end');
    }
  }

  #onHeader(line: string): void {
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

  #onTrailer(line: string): void {
    const colon = line.indexOf(':');
    if (colon < 1) throw malformed('has a trailer that is not name:value');
    this.#body.trailer(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
}

function malformed(why: string): S3Error {
  return new S3Error('IncompleteBody', `The body is not valid aws-chunked data: it ${why}.`);
}
