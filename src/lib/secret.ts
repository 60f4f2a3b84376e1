import { hash, timingSafeEqual } from 'node:crypto';
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
    // Digests are of one length, whatever the lengths of the values.
    const digest = (value: string) => hash('sha256', value, 'buffer');
    return timingSafeEqual(digest(this.#value), digest(typeof other === 'string' ? other : other.reveal()));
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
