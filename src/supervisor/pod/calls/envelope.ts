import { fields, optional, text, wholeNumber } from '../../../base/fields.ts';
import { Secret } from '../../../base/secret.ts';

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
