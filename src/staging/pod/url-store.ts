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

/** Reads what a presigned URL gives. Every failure is a {@link TransferError}. */
export async function readUrl(url: Secret, client: HttpClient, signal: AbortSignal): Promise<RemoteObject> {
  const address = readUrlAddress(url);
  const answer = await send(address, client, { method: 'GET', signal });
  if (answer.status !== 200) throw refusal(answer);
  const length = answer.headers['content-length'];
  return { body: answer.body, bytes: length === undefined ? undefined : Number(length), host: address.hostname };
}

/** Writes a file to where a presigned URL leads. Every failure is a {@link TransferError}. */
export async function writeUrl(url: Secret, file: OutputFile, client: HttpClient, signal: AbortSignal): Promise<void> {
  const answer = await send(readUrlAddress(url), client, { method: 'PUT', file, signal });
  if (answer.status < 200 || answer.status > 299) throw refusal(answer);
  answer.body.on('error', () => {}).resume();
}

/** An address that is none is not shown: it may be half a key. */
function readUrlAddress(url: Secret): URL {
  try {
    return readAddress(url.reveal());
  } catch {
    throw new TransferError('the address that was given for it is none', { retryable: false });
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
    return new UrlRefused(`the store refused the address that was given for it (${status})`, { retryable: false });
  const reason = status === 404 ? 'it does not exist' : `the store answered ${status}`;
  return new TransferError(reason, { retryable: status === 429 || status >= 500 });
}

/** What stores answer to keys that were good once. A key that is dropped when it expires is one that nobody knows. */
const EXPIRED = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidAccessKeyId',
  'InvalidToken',
  'InvalidTokenId',
  'TokenRefreshRequired',
]);

/** A presigned URL was not taken: most likely its time is over. */
class UrlRefused extends TransferError {}

/** A pod may begin before there are keys for what its script leaves. */
export class KeysMissing extends Error {
  constructor() {
    super('there are no keys yet');
    this.name = 'KeysMissing';
  }
}

/** Did the store refuse the keys, or are there none, so that others may do? */
export function isRefusal(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof UrlRefused || each instanceof KeysMissing || EXPIRED.has(each.name)) return true;
  return false;
}
