import { createCipheriv, pbkdf2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import type { Secret } from '../../../base/secret.ts';

/**
 * Of the three ways that a server understands, the one that needs no Argon2 with its 64 MiB: PBKDF2-HMAC-SHA256 and
 * AES-256-GCM. Answers come in another one, but none is read that is sealed.
 */
const PBKDF2_AES = 2;
const ITERATIONS = 8192;

/** Bytes of plain text in a fragment. */
const FRAGMENT = 16_384;

const NONE = new Uint8Array();
const MORE = 0x00;
const LAST = 0x80;

/**
 * A body of MinIO's admin API that holds secrets: sealed with the secret key of whoever sends it. Salt, the way, a nonce;
 * then fragments, each authenticated together with its place and whether it is the last, so that none can be left out.
 */
export async function sealed(secretKey: Secret, text: string): Promise<Buffer> {
  const plain = Buffer.from(text);
  const salt = randomBytes(32);
  const nonce = randomBytes(8);
  const key = await promisify(pbkdf2)(secretKey.reveal(), salt, ITERATIONS, 32, 'sha256');
  const seal = (number: number, fragment: Uint8Array, context: Uint8Array): Buffer => {
    const place = Buffer.alloc(4);
    place.writeUInt32LE(number);
    const cipher = createCipheriv('aes-256-gcm', key, Buffer.concat([nonce, place]));
    cipher.setAAD(context);
    return Buffer.concat([cipher.update(fragment), cipher.final(), cipher.getAuthTag()]);
  };
  const beginning = seal(0, NONE, NONE);
  const fragments: Buffer[] = [];
  let at = 0;
  do {
    const end = at + FRAGMENT;
    const flag = Buffer.of(end >= plain.length ? LAST : MORE);
    fragments.push(seal(fragments.length + 1, plain.subarray(at, end), Buffer.concat([flag, beginning])));
    at = end;
  } while (at < plain.length);
  return Buffer.concat([salt, Buffer.of(PBKDF2_AES), nonce, ...fragments]);
}
