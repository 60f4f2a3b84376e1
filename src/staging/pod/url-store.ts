import { type IncomingMessage, type RequestOptions, request as requestPlain } from 'node:http';
import { request as requestSecure } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { type Agents, toHttpClientError } from '../../lib/http/index.ts';
import type { Secret } from '../../lib/secret.ts';
import { type OutputFile, type RemoteObject, readAddress, TransferError } from '../transfers/remote-store.ts';

/** A store that says nothing for so long is gone. */
const IDLE_DEADLINE = 60_000;

/** Reads what a presigned URL gives. Every failure is a {@link TransferError}. */
export async function readUrl(url: Secret, agents: Agents, signal: AbortSignal): Promise<RemoteObject> {
  const address = readUrlAddress(url);
  const answer = await send(address, agents, { method: 'GET', signal });
  if (answer.statusCode !== 200) throw refusal(answer);
  const length = answer.headers['content-length'];
  return { body: answer, bytes: length === undefined ? undefined : Number(length), host: address.hostname };
}

/** Writes a file to where a presigned URL leads. Every failure is a {@link TransferError}. */
export async function writeUrl(url: Secret, file: OutputFile, agents: Agents, signal: AbortSignal): Promise<void> {
  const answer = await send(readUrlAddress(url), agents, { method: 'PUT', file, signal });
  const status = answer.statusCode ?? 0;
  if (status < 200 || status > 299) throw refusal(answer);
  answer.on('error', () => {}).resume();
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

async function send(address: URL, agents: Agents, { method, file, signal }: Call): Promise<IncomingMessage> {
  const secure = address.protocol === 'https:';
  const options: RequestOptions = {
    method,
    agent: secure ? agents.https : agents.http,
    headers: file ? { 'content-length': file.bytes } : {},
    signal,
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const outgoing = (secure ? requestSecure : requestPlain)(address, options, resolve).on('error', reject);
  outgoing.setTimeout(IDLE_DEADLINE, () => {
    outgoing.destroy(Object.assign(new Error('nothing came for too long'), { code: 'ETIMEDOUT' }));
  });
  // An answer may come before everything is sent: then it is what counts.
  if (file) pipeline(file.content(), outgoing).catch(reject);
  else outgoing.end();
  return promise.catch((error: unknown) => {
    const failure = toHttpClientError(error, address.hostname);
    const message = failure?.message ?? `"${address.hostname}" does not answer like a store`;
    throw new TransferError(message, { cause: error, retryable: failure?.isTransient === true });
  });
}

function refusal(answer: IncomingMessage): TransferError {
  answer.on('error', () => {}).resume();
  const status = answer.statusCode ?? 0;
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
