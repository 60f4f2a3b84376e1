import type { HttpAnswer, HttpClient } from '../../lib/http/index.ts';
import type { Secret } from '../../lib/secret.ts';
import {
  type OutputFile,
  type RemoteObject,
  readAddress,
  STORE_IDLE,
  TransferError,
  toTransferError,
} from '../transfers/remote-store.ts';

/** Downloads from a presigned URL. Every failure is a {@link TransferError}. */
export async function readUrl(url: Secret, client: HttpClient, signal: AbortSignal): Promise<RemoteObject> {
  const address = readUrlAddress(url);
  const answer = await send(address, client, { method: 'GET', signal });
  if (answer.status !== 200) throw refusal(answer);
  const length = answer.headers['content-length'];
  return { body: answer.body, bytes: length === undefined ? undefined : Number(length), host: address.hostname };
}

/** Uploads a file to a presigned URL. Every failure is a {@link TransferError}. */
export async function writeUrl(url: Secret, file: OutputFile, client: HttpClient, signal: AbortSignal): Promise<void> {
  const answer = await send(readUrlAddress(url), client, { method: 'PUT', file, signal });
  if (answer.status < 200 || answer.status > 299) throw refusal(answer);
  answer.body.on('error', () => {}).resume();
}

/** An invalid URL is not shown in the error: it may contain part of a key. */
function readUrlAddress(url: Secret): URL {
  try {
    return readAddress(url.reveal());
  } catch {
    throw new TransferError('its presigned URL is invalid', { retryable: false });
  }
}

interface Call {
  readonly method: 'GET' | 'PUT';
  readonly file?: OutputFile;
  readonly signal: AbortSignal;
}

function send(address: URL, client: HttpClient, { method, file, signal }: Call): Promise<HttpAnswer> {
  const headers = file ? { 'content-length': String(file.bytes) } : {};
  const request = { method, url: address, headers, body: file?.content(), signal, idle: STORE_IDLE };
  return client.open(request).catch((error: unknown) => Promise.reject(toTransferError(error, address.hostname)));
}

function refusal({ status, body }: HttpAnswer): TransferError {
  body.on('error', () => {}).resume();
  if (status === 400 || status === 401 || status === 403)
    return new UrlRejected(`the store rejected its presigned URL (${status})`, { retryable: false });
  const reason = status === 404 ? 'it does not exist' : `the store answered ${status}`;
  return new TransferError(reason, { retryable: status === 429 || status >= 500 });
}

/** Error codes of stores for expired keys. Some stores remove expired keys, so an unknown key may be an expired one. */
const EXPIRED = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidAccessKeyId',
  'InvalidToken',
  'InvalidTokenId',
  'TokenRefreshRequired',
]);

/** The store rejected a presigned URL: most likely it has expired. */
class UrlRejected extends TransferError {}

/** A pod may start before there are keys for the outputs of its script. */
export class KeysMissing extends Error {
  constructor() {
    super('there are no keys yet');
    this.name = 'KeysMissing';
  }
}

/** Whether the keys are missing or were rejected, so that renewed ones may help. */
export function needsNewKeys(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof UrlRejected || each instanceof KeysMissing || EXPIRED.has(each.name)) return true;
  return false;
}
