const HEADER = 8;

/**
 * Takes a log stream of the Engine API apart: each frame has a header of eight bytes, the last four its length, and holds
 * one line or, of a very long one, a piece. Give it chunks as they come.
 */
export class Frames {
  #rest = Buffer.alloc(0);

  /** The frames that are whole by now. */
  take(chunk: Uint8Array): Buffer[] {
    let rest = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : Buffer.from(chunk);
    const frames: Buffer[] = [];
    while (rest.length >= HEADER) {
      const end = HEADER + rest.readUInt32BE(4);
      if (rest.length < end) break;
      frames.push(rest.subarray(HEADER, end));
      rest = rest.subarray(end);
    }
    this.#rest = rest;
    return frames;
  }
}
