import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { fields, optional, text, wholeNumber } from '../../../lib/fields.ts';
import { Secret } from '../../../lib/secret.ts';
import { type PodResult, readResult, writeResult } from '../result.ts';

/** Everything that one call is: what the manager sends to a pod that answers call after call. It is full of keys. */
export interface CallEnvelope {
  /** What `orders.json` is in a pod that runs once, see `orders.ts`. */
  readonly orders: string;
  /** The same of `stores.json`. */
  readonly stores: string;
  readonly script: string;
  /** A program for the shell that begins the script with its environment. */
  readonly begin: string;
  /** Milliseconds from the start of the script. */
  readonly timeout: number;
  /** The bytes that are the input, in base64, if the orders say that there are some. */
  readonly input?: string;
  /** Where the log is put when the script has ended: a presigned URL. */
  readonly log: Secret;
}

/** What else is in it is left alone, so that later versions may say more. */
const VERSION = 1;

/** More than a script, an environment and an input may have together; larger inputs lie elsewhere. */
export const LARGEST_ENVELOPE = 8 * 1024 * 1024;

export function writeEnvelope({ log, ...envelope }: CallEnvelope): string {
  return JSON.stringify({ version: VERSION, ...envelope, log: log.reveal() });
}

const anyText = text('text', /^/);

const envelopeOf = fields<CallEnvelope & { readonly version: number }>({
  version: { is: String(VERSION), read: (raw) => (raw === VERSION ? VERSION : undefined) },
  orders: anyText,
  stores: anyText,
  script: anyText,
  begin: anyText,
  timeout: wholeNumber,
  input: optional(anyText),
  log: { is: 'an address', read: (raw) => (typeof raw === 'string' ? new Secret(raw) : undefined) },
});

/** Or what is wrong with it, in words that show nothing of what is in it. */
export function readEnvelope(json: string): CallEnvelope | { readonly problem: string } {
  let raw: unknown;
  try {
    raw = JSON.parse(json);
  } catch {
    return { problem: 'it is no JSON' };
  }
  const read = envelopeOf(raw);
  return 'value' in read ? read.value : { problem: read.problems.join('; ') };
}

/** What a pod tells the manager while it answers a call, a line of JSON each. An empty line says that it is still there. */
export type CallFrame =
  /** The first one: which pod it is. Nothing has been begun before it was sent. */
  | { readonly pod: string }
  | { readonly startedAt: number }
  | { readonly uploading: true }
  /** What the script printed, in base64; each line begins with its time, see `Stamping` in `printed.ts`. */
  | { readonly log: string }
  /** The last one. `kept`: all that was printed is where the log was to be put. */
  | { readonly end: PodResult; readonly cause?: EndCause; readonly kept?: true };

/** More than any of them has: a block of the log, or an end with all its notices. Whoever sends more is no program of ours. */
export const LARGEST_FRAME = 8 * 1024 * 1024;

/** Why the script did not end by itself. `died`: its container did. */
export type EndCause = 'timeout' | 'died';

export function writeFrame(frame: CallFrame): string {
  return `${JSON.stringify('end' in frame ? { ...frame, end: writeResult(frame.end) } : frame)}\n`;
}

/** Undefined for an empty line, and for what is no frame: it comes from a pod. */
export function readFrame(line: string): CallFrame | undefined {
  if (line.trim() === '') return undefined;
  let raw: Readonly<Record<string, unknown>> | null;
  try {
    raw = JSON.parse(line);
  } catch {
    return undefined;
  }
  const { pod, startedAt, uploading, log, end, cause, kept } = raw ?? {};
  if (typeof pod === 'string') return { pod };
  if (typeof startedAt === 'number' && Number.isSafeInteger(startedAt)) return { startedAt };
  if (uploading === true) return { uploading };
  if (typeof log === 'string') return { log };
  const result = typeof end === 'string' ? readResult(end) : undefined;
  const because = cause === 'timeout' || cause === 'died' ? cause : undefined;
  return result && { end: result, ...(because && { cause: because }), ...(kept === true && { kept }) };
}

/**
 * How a call travels: nobody reads it who does not have the token of the service. The program of a pod and the container of its
 * script share a network, so that whoever is quick there can listen in its place; what comes then is of no use without the
 * token, which itself is never sent.
 */
interface SealedCall {
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
