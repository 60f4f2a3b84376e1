import { timingSafeEqual } from 'node:crypto';
import { inspect } from 'node:util';

const MASK = '[secret]';

/**
 * A value that must not be seen: a password, a key, a token. Logging, serialising, formatting or joining it gives a
 * mask, so that only a deliberate `reveal()` can let it out.
 *
 * @example
 * const password = new Secret('s3cret');
 * JSON.stringify({ password });  // {"password":"[secret]"}
 * password.equals('s3cret');     // true, in constant time
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  /** Compares in time that depends on neither value (S13). */
  equals(other: string | Secret): boolean {
    const mine = Buffer.from(this.#value);
    const theirs = Buffer.from(typeof other === 'string' ? other : other.reveal());
    if (mine.length !== theirs.length) {
      timingSafeEqual(mine, mine);
      return false;
    }
    return timingSafeEqual(mine, theirs);
  }

  toJSON(): string {
    return MASK;
  }

  toString(): string {
    return MASK;
  }

  [inspect.custom](): string {
    return MASK;
  }
}
