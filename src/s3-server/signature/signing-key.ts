import { createHmac } from 'node:crypto';

/** What a signature is good for: `<date>/<region>/<service>/aws4_request`. */
export interface Scope {
  /** Eight digits. */
  readonly date: string;
  readonly region: string;
  readonly service: string;
}

export function formatScope({ date, region, service }: Scope): string {
  return `${date}/${region}/${service}/aws4_request`;
}

const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();

/**
 * How many derived keys are remembered for one secret. A client uses one a day; another number comes only from clients
 * that change their region, which is theirs to choose, so that there must be a bound.
 */
const REMEMBERED = 8;

/** A secret that signs, and the keys derived from it: four hashes each, the same for every request of a day. */
export class SigningSecret {
  readonly #secret: string;
  readonly #keys = new Map<string, Buffer>();

  constructor(secret: string) {
    this.#secret = secret;
  }

  /** Lower-case hex, for version 4. */
  sign(scope: Scope, text: string): string {
    return createHmac('sha256', this.#keyFor(scope)).update(text, 'latin1').digest('hex');
  }

  /** Base64, for version 2. */
  signV2(text: string): string {
    return createHmac('sha1', this.#secret).update(text, 'latin1').digest('base64');
  }

  #keyFor(scope: Scope): Buffer {
    const name = formatScope(scope);
    const known = this.#keys.get(name);
    if (known) return known;
    const dated = hmac(`AWS4${this.#secret}`, scope.date);
    const key = hmac(hmac(hmac(dated, scope.region), scope.service), 'aws4_request');
    if (this.#keys.size >= REMEMBERED) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}
