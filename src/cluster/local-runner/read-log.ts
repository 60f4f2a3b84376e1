import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { HEAD_BYTES, MARK } from './log-file.ts';

/** What a slow reader costs while it is slow. */
const READ_BYTES = 64 * 1024;

const NEWLINE = 0x0a;
const SPACE = 0x20;

/** `printed`: what the script printed, byte by byte, without our notices. */
export type Presentation = 'plain' | 'timestamps' | 'printed';

/**
 * The log from its beginning. At its end `more` is asked with the size that was read: it resolves to true when there is
 * more, false when there never will be.
 */
export async function* readLog(
  path: string,
  presentation: Presentation,
  more: (size: number) => Promise<boolean> = async () => false,
): AsyncGenerator<Uint8Array, undefined> {
  const presenter = new Presenter(presentation);
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position);
    position += bytesRead;
    const shown = presenter.present(buffer.subarray(0, bytesRead));
    if (shown.length > 0) yield shown;
    if (bytesRead === 0 && !(await more(position))) break;
  }
  const rest = presenter.end();
  if (rest.length > 0) yield rest;
}

/** Takes the file in pieces of any size. */
class Presenter {
  readonly #as: Presentation;
  readonly #head = Buffer.alloc(HEAD_BYTES);
  #headBytes = 0;
  #shown = true;
  #heldNewline = false;

  constructor(as: Presentation) {
    this.#as = as;
  }

  present(bytes: Uint8Array): Uint8Array {
    const parts: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      if (this.#headBytes < HEAD_BYTES) at += this.#takeHead(bytes.subarray(at), parts);
      else at += this.#takeText(bytes.subarray(at), parts);
    }
    return Buffer.concat(parts);
  }

  end(): Uint8Array {
    return Buffer.from(this.#heldNewline ? '\n' : '');
  }

  #takeHead(bytes: Uint8Array, parts: Uint8Array[]): number {
    const taken = bytes.subarray(0, HEAD_BYTES - this.#headBytes);
    this.#head.set(taken, this.#headBytes);
    this.#headBytes += taken.length;
    if (this.#headBytes < HEAD_BYTES) return taken.length;
    const mark = this.#head[HEAD_BYTES - 1];
    this.#shown = this.#as !== 'printed' || mark === MARK.output;
    if (this.#heldNewline && mark !== MARK.breakingNotice) parts.push(Buffer.of(NEWLINE));
    this.#heldNewline = false;
    if (this.#as === 'timestamps') parts.push(Buffer.from(this.#head.subarray(0, -1)), Buffer.of(SPACE));
    return taken.length;
  }

  #takeText(bytes: Uint8Array, parts: Uint8Array[]): number {
    const newline = bytes.indexOf(NEWLINE);
    const line = newline < 0 ? bytes : bytes.subarray(0, newline + 1);
    // Whether the script printed this newline is known at the next line.
    const holds = this.#as === 'printed' && newline >= 0;
    if (this.#shown) parts.push(holds ? line.subarray(0, -1) : line);
    if (this.#shown && holds) this.#heldNewline = true;
    if (newline >= 0) this.#headBytes = 0;
    return line.length;
  }
}
