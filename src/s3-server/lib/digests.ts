import { createHash, type Hash } from 'node:crypto';
import { type Algorithm, type Summing, summing } from './checksum.ts';

/** What is to be computed of a body besides its MD5, which is its ETag. */
export interface WantedDigests {
  readonly sha256: boolean;
  readonly checksum?: Algorithm;
}

export interface Digests {
  /** Hex. */
  readonly md5: string;
  /** Hex; when it was wanted. */
  readonly sha256?: string;
  /** Base64; when it was wanted. */
  readonly checksum?: string;
}

/** All digests of a body, in one pass. */
export class Digesting {
  readonly #md5: Hash = createHash('md5');
  readonly #sha256: Hash | undefined;
  readonly #checksum: Summing | undefined;

  constructor({ sha256, checksum }: WantedDigests) {
    this.#sha256 = sha256 ? createHash('sha256') : undefined;
    this.#checksum = checksum ? summing(checksum) : undefined;
  }

  update(bytes: Uint8Array): void {
    this.#md5.update(bytes);
    this.#sha256?.update(bytes);
    this.#checksum?.update(bytes);
  }

  digest(): Digests {
    const [sha256, checksum] = [this.#sha256?.digest('hex'), this.#checksum?.digest()];
    return {
      md5: this.#md5.digest('hex'),
      ...(sha256 !== undefined && { sha256 }),
      ...(checksum !== undefined && { checksum }),
    };
  }
}
