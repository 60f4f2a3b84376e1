import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hash,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto';
import { inspect } from 'node:util';
import { OscarError } from './oscar-error.ts';

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

const ALGORITHM = 'aes-256-gcm';

/** First byte of what is sealed, so that another algorithm can follow. */
const FORMAT = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const HEADER_BYTES = 1 + IV_BYTES + TAG_BYTES;

/** A sealed value that cannot be opened. */
class SealError extends OscarError<'damaged'> {}

/** Where a sealed value stands, from the outside in: `['secret', 'grant', <id>]`. */
export type SealedPlace = readonly [string, ...string[]];

/**
 * Seals values so that the file they are stored in shows nothing, and so that nobody who can write that file can
 * change them or put one in another's place: the place is authenticated with the value.
 */
export class Seal {
  readonly #key: KeyObject;

  constructor(key: Buffer) {
    this.#key = createSecretKey(key);
  }

  seal(value: string, place: SealedPlace): Buffer {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv(ALGORITHM, this.#key, iv, { authTagLength: TAG_BYTES });
    cipher.setAAD(bytesOf(place));
    const body = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
    return Buffer.concat([Buffer.of(FORMAT), iv, cipher.getAuthTag(), body]);
  }

  /** Throws `damaged`, with the place and never the content, when this was not sealed here for this place. */
  open(sealed: Uint8Array, place: SealedPlace): string {
    try {
      if (sealed[0] !== FORMAT || sealed.length < HEADER_BYTES) throw new Error('not a sealed value');
      const decipher = createDecipheriv(ALGORITHM, this.#key, sealed.subarray(1, 1 + IV_BYTES), {
        authTagLength: TAG_BYTES,
      });
      decipher.setAAD(bytesOf(place));
      decipher.setAuthTag(sealed.subarray(1 + IV_BYTES, HEADER_BYTES));
      return decipher.update(sealed.subarray(HEADER_BYTES), undefined, 'utf8') + decipher.final('utf8');
    } catch (cause) {
      throw new SealError(
        'damaged',
        `the stored value of ${place.join(' ')} cannot be opened: it was changed outside the manager, or sealed with another key`,
        { cause },
      );
    }
  }
}

/** JSON, because it keeps `['a', 'b']` apart from `['a b']`. */
function bytesOf(place: SealedPlace): Buffer {
  return Buffer.from(JSON.stringify(place));
}
