import { createHash, type Hash, hash } from 'node:crypto';
import { S3Error } from '../lib/errors.ts';
import { formatScope, type Scope, type SigningSecret } from './signing-key.ts';
import { sameText } from './verify.ts';

const OF_NOTHING = hash('sha256', '', 'hex');

/** The chain of signatures of a body in signed chunks: each signs its bytes and the signature before it. */
export class ChunkSignatures {
  readonly #secret: SigningSecret;
  readonly #scope: Scope;
  readonly #date: string;
  #previous: string;
  #hash: Hash = createHash('sha256');

  /** `seed` is the signature of the request itself. */
  constructor(secret: SigningSecret, scope: Scope, date: string, seed: string) {
    this.#secret = secret;
    this.#scope = scope;
    this.#date = date;
    this.#previous = seed;
  }

  data(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  endOfChunk(signature: string): void {
    const digest = this.#hash.digest('hex');
    this.#hash = createHash('sha256');
    this.#check('AWS4-HMAC-SHA256-PAYLOAD', `${OF_NOTHING}\n${digest}`, signature);
  }

  /** `trailer` is its lines as `name:value\n`. */
  trailer(trailer: string, signature: string): void {
    this.#check('AWS4-HMAC-SHA256-TRAILER', hash('sha256', trailer, 'hex'), signature);
  }

  #check(kind: string, digests: string, signature: string): void {
    const text = `${kind}\n${this.#date}\n${formatScope(this.#scope)}\n${this.#previous}\n${digests}`;
    const expected = this.#secret.sign(this.#scope, text);
    if (!sameText(expected, signature)) throw new S3Error('SignatureDoesNotMatch');
    this.#previous = expected;
  }
}
