import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * How a call travels: nobody reads it who does not have the token of the service. The program of a pod and the container of its
 * script share a network, so that whoever is quick there can listen in its place; what comes then is of no use without the
 * token, which itself is never sent.
 */
export interface SealedCall {
  /** The header by which the program knows who calls, before it reads anything else. */
  readonly authorization: string;
  readonly body: Buffer;
}

const SCHEME = 'OSCAR-Call';
const CIPHER = 'aes-256-gcm';
const SALT_BYTES = 32;
const TAG_BYTES = 16;

/** Each call has a key of its own. */
const NONCE = Buffer.alloc(12);

/** What sealing adds. */
export const SEAL_BYTES = TAG_BYTES;

const derived = (token: string, salt: Uint8Array, what: string) =>
  Buffer.from(hkdfSync('sha256', token, salt, what, 32));
const proofOf = (token: string, salt: Uint8Array) => derived(token, salt, 'who calls');
const keyOf = (token: string, salt: Uint8Array) => derived(token, salt, 'what is called');

export function sealCall(envelope: string, token: string): SealedCall {
  const salt = randomBytes(SALT_BYTES);
  const cipher = createCipheriv(CIPHER, keyOf(token, salt), NONCE);
  const sealed = [cipher.update(envelope, 'utf8'), cipher.final()];
  const words = [salt, proofOf(token, salt)].map((each) => each.toString('base64url'));
  return { authorization: `${SCHEME} ${words.join('.')}`, body: Buffer.concat([...sealed, cipher.getAuthTag()]) };
}

/** The salt of a call whose sender has the token; undefined for everybody else. */
export function saltOf(authorization: string, token: string): Uint8Array | undefined {
  const [, first = '', second = ''] = new RegExp(`^${SCHEME} ([\\w-]+)\\.([\\w-]+)$`).exec(authorization) ?? [];
  const [salt, proof] = [Buffer.from(first, 'base64url'), Buffer.from(second, 'base64url')];
  if (token === '' || salt.length !== SALT_BYTES) return undefined;
  const expected = proofOf(token, salt);
  return proof.length === expected.length && timingSafeEqual(proof, expected) ? salt : undefined;
}

/** Undefined for what was not sealed with that token and salt. */
export function openCall(body: Uint8Array, salt: Uint8Array, token: string): string | undefined {
  if (body.length < TAG_BYTES) return undefined;
  const end = body.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, keyOf(token, salt), NONCE).setAuthTag(body.subarray(end));
  try {
    return Buffer.concat([decipher.update(body.subarray(0, end)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}
