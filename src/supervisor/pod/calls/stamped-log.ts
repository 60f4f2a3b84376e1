/** As Kubernetes writes the time of a line: always so many bytes, the blank after it included. */
export const STAMP_BYTES = 31;

const NEWLINE = 0x0a;

const stamp = (now: number) => Buffer.from(`${new Date(now).toISOString().slice(0, -1)}000000Z `, 'latin1');

/** Puts the time before each line of what comes piece by piece. */
export class Stamping {
  #inLine = false;

  add(bytes: Uint8Array, now: number): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const end = bytes.indexOf(NEWLINE, at);
      const next = end < 0 ? bytes.length : end + 1;
      if (!this.#inLine) pieces.push(stamp(now));
      pieces.push(bytes.subarray(at, next));
      this.#inLine = end < 0;
      at = next;
    }
    return Buffer.concat(pieces);
  }
}

/** Takes the times away again. */
export class Unstamping {
  /** How much of the time of the line that has begun is still to come. */
  #left = STAMP_BYTES;

  add(bytes: Uint8Array): Uint8Array {
    const pieces: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; ) {
      const skipped = Math.min(this.#left, bytes.length - at);
      this.#left -= skipped;
      at += skipped;
      const end = bytes.indexOf(NEWLINE, at);
      const next = end < 0 ? bytes.length : end + 1;
      pieces.push(bytes.subarray(at, next));
      if (end >= 0) this.#left = STAMP_BYTES;
      at = next;
    }
    return Buffer.concat(pieces);
  }
}
