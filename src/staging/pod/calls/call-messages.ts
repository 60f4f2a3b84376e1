import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { fields, optional, textField, wholeNumberField } from '../../../lib/fields.ts';
import { Secret } from '../../../lib/secret.ts';
import { type PodResult, readResult, writeResult } from '../result.ts';

/** One call: what the manager sends to a pod that answers calls. It contains keys. */
export interface CallEnvelope {
  /** The content of `orders.json`, see `orders.ts`. */
  readonly orders: string;
  /** The content of `stores.json`. */
  readonly stores: string;
  readonly script: string;
  /** A shell program that starts the script with its environment. */
  readonly begin: string;
  /** Milliseconds from the start of the script. */
  readonly timeout: number;
  /** The input in base64, if the orders say that it is in the call. */
  readonly input?: string;
  /** The presigned URL to which the log is uploaded when the script has ended. */
  readonly log: Secret;
}

/** Unknown keys are ignored, so that later versions can add some. */
const VERSION = 1;

/** More than a script, an environment and an input can have together; larger inputs are in the object store. */
export const MAX_ENVELOPE_BYTES = 8 * 1024 * 1024;

export function writeEnvelope({ log, ...envelope }: CallEnvelope): string {
  return JSON.stringify({ version: VERSION, ...envelope, log: log.reveal() });
}

const anyText = textField('text', /^/);

const envelopeFields = fields<CallEnvelope & { readonly version: number }>({
  version: { is: String(VERSION), read: (raw) => (raw === VERSION ? VERSION : undefined) },
  orders: anyText,
  stores: anyText,
  script: anyText,
  begin: anyText,
  timeout: wholeNumberField,
  input: optional(anyText),
  log: { is: 'an address', read: (raw) => (typeof raw === 'string' ? new Secret(raw) : undefined) },
});

/** Parses a call. A problem is described without quoting the call, which contains keys. */
export function readEnvelope(json: string): CallEnvelope | { readonly problem: string } {
  let raw: unknown;
  try {
    raw = JSON.parse(json);
  } catch {
    return { problem: 'it is not JSON' };
  }
  const read = envelopeFields(raw);
  return 'value' in read ? read.value : { problem: read.problems.join('; ') };
}

/** What a pod reports to the manager while it answers a call, each as a line of JSON. An empty line is a heartbeat. */
export type CallFrame =
  /** The first frame: the name of the pod. It is sent before anything starts. */
  | { readonly pod: string }
  | { readonly startedAt: number }
  | { readonly uploading: true }
  /** Output of the script, in base64; each line begins with its time, see `LineStamper` in `call-output.ts`. */
  | { readonly log: string }
  /** The last frame. `kept`: the complete log was uploaded. */
  | { readonly end: PodResult; readonly cause?: EndCause; readonly kept?: true };

/**
 * More than any frame has: a block of the log, or an end with all its notices. A longer one is not from our program.
 */
export const MAX_FRAME_BYTES = 8 * 1024 * 1024;

/** Why the script did not end by itself. `died`: its container ended. */
export type EndCause = 'timeout' | 'died';

export function writeFrame(frame: CallFrame): string {
  return `${JSON.stringify('end' in frame ? { ...frame, end: writeResult(frame.end) } : frame)}\n`;
}

/** Undefined for an empty line, and for an invalid frame: a pod may send anything. */
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
 * A call, encrypted with a key derived from the token of the service. The containers of a pod share a network, so the
 * script could listen on the port of our program. It cannot read the calls, because it does not have the token, which
 * is never sent.
 */
interface SealedCall {
  /** The header that proves that the caller has the token, checked before the body is read. */
  readonly authorization: string;
  readonly body: Buffer;
}

const SCHEME = 'OSCAR-Call';
const CIPHER = 'aes-256-gcm';
const SALT_BYTES = 32;
const TAG_BYTES = 16;

/** Constant, because each call has its own key. */
const NONCE = Buffer.alloc(12);

/** The bytes that encryption adds. */
export const SEAL_BYTES = TAG_BYTES;

const derive = (token: string, salt: Uint8Array, what: string) =>
  Buffer.from(hkdfSync('sha256', token, salt, what, 32));
const deriveProof = (token: string, salt: Uint8Array) => derive(token, salt, 'who calls');
const deriveKey = (token: string, salt: Uint8Array) => derive(token, salt, 'what is called');

export function sealCall(envelope: string, token: string): SealedCall {
  const salt = randomBytes(SALT_BYTES);
  const cipher = createCipheriv(CIPHER, deriveKey(token, salt), NONCE);
  const sealed = [cipher.update(envelope, 'utf8'), cipher.final()];
  const words = [salt, deriveProof(token, salt)].map((each) => each.toString('base64url'));
  return { authorization: `${SCHEME} ${words.join('.')}`, body: Buffer.concat([...sealed, cipher.getAuthTag()]) };
}

/** Returns the salt of the call if the sender has the token, otherwise undefined. */
export function verifyCaller(authorization: string, token: string): Uint8Array | undefined {
  const [, first = '', second = ''] = new RegExp(`^${SCHEME} ([\\w-]+)\\.([\\w-]+)$`).exec(authorization) ?? [];
  const [salt, proof] = [Buffer.from(first, 'base64url'), Buffer.from(second, 'base64url')];
  if (token === '' || salt.length !== SALT_BYTES) return undefined;
  const expected = deriveProof(token, salt);
  return proof.length === expected.length && timingSafeEqual(proof, expected) ? salt : undefined;
}

/** Undefined if the body was not encrypted with this token and salt. */
export function openCall(body: Uint8Array, salt: Uint8Array, token: string): string | undefined {
  if (body.length < TAG_BYTES) return undefined;
  const end = body.length - TAG_BYTES;
  const decipher = createDecipheriv(CIPHER, deriveKey(token, salt), NONCE).setAuthTag(body.subarray(end));
  try {
    return Buffer.concat([decipher.update(body.subarray(0, end)), decipher.final()]).toString();
  } catch {
    return undefined;
  }
}
