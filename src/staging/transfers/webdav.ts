import type { IncomingMessage } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { type Agents, toHttpClientError } from '../../lib/http/index.ts';
import type { WebdavAccess } from '../../model/job/index.ts';
import { type OutputFile, type RemoteStore, readAddress, TransferError } from './remote-store.ts';

/** A store that says nothing for so long is gone. */
const IDLE_DEADLINE = 60_000;

interface Call {
  readonly method: 'GET' | 'PUT' | 'MKCOL';
  /** Without a slash in front. */
  readonly path: string;
  readonly file?: OutputFile;
  readonly signal?: AbortSignal;
}

/** A store that speaks WebDAV, over https with a name and a password. It keeps no marks: what is resumed is written again. */
export function webdavStore(access: WebdavAccess, agents: Agents): RemoteStore {
  const { hostname } = addressOf(access);
  const call = (each: Call) =>
    send(access, agents, each).catch((error: unknown) => Promise.reject(lost(error, hostname)));
  const collections = new Map<string, Promise<void>>();

  /** Makes a collection and those above it. What cannot be made here is said by the upload, with a better reason. */
  const ensure = (path: string, signal: AbortSignal): Promise<void> => {
    const known = collections.get(path) ?? make(path, signal);
    collections.set(path, known);
    return known;
  };
  const make = async (path: string, signal: AbortSignal): Promise<void> => {
    const mkcol = { method: 'MKCOL', path: `${path}/`, signal } as const;
    const missesParent = (await done(call(mkcol))) === 409 && path.includes('/');
    if (!missesParent) return;
    await ensure(parentOf(path), signal);
    await done(call(mkcol));
  };

  return {
    async read({ key }) {
      const answer = await call({ method: 'GET', path: key });
      if (answer.statusCode !== 200) throw refusal(await done(answer));
      const length = answer.headers['content-length'];
      return { body: answer, bytes: length === undefined ? undefined : Number(length), host: hostname };
    },
    async write({ key }, file, _attempt, signal) {
      if (key.includes('/')) await ensure(parentOf(key), signal);
      const status = await done(call({ method: 'PUT', path: key, file, signal }));
      if (status < 200 || status > 299) throw refusal(status);
      return undefined;
    },
    written: async () => undefined,
  };
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'));

/** Reads an answer to its end, so that the connection can be used again. Nobody minds if the end does not come. */
async function done(coming: IncomingMessage | Promise<IncomingMessage>): Promise<number> {
  const answer = await coming;
  answer.on('error', () => {}).resume();
  return answer.statusCode ?? 0;
}

async function send(access: WebdavAccess, agents: Agents, call: Call): Promise<IncomingMessage> {
  const { method, path, file, signal } = call;
  const { hostname, port } = addressOf(access);
  const options: RequestOptions = {
    method,
    hostname: hostname.replace(/^\[(.*)\]$/, '$1'),
    port,
    path: `/${path.split('/').map(encodeURIComponent).join('/')}`,
    agent: agents.https,
    auth: `${access.login}:${access.password.reveal()}`,
    headers: file ? { 'content-length': file.bytes, 'content-type': 'application/octet-stream' } : {},
    ...(signal && { signal }),
  };
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const outgoing = request(options, resolve).on('error', reject);
  outgoing.setTimeout(IDLE_DEADLINE, () => {
    outgoing.destroy(Object.assign(new Error('nothing came for too long'), { code: 'ETIMEDOUT' }));
  });
  // An answer may come before everything is sent: then it is what counts.
  if (file) pipeline(file.content(), outgoing).catch(reject);
  else outgoing.end();
  return promise;
}

const addressOf = (access: WebdavAccess) => readAddress(`https://${access.hostname}`);

function lost(error: unknown, host: string): TransferError {
  const failure = toHttpClientError(error, host);
  const message = failure?.message ?? `"${host}" does not answer like a store`;
  return new TransferError(message, { cause: error, retryable: failure?.isTransient === true });
}

const REASONS: Readonly<Record<number, string>> = {
  401: 'the name or the password is wrong',
  403: 'access is denied',
  404: 'it does not exist',
  409: 'its folder does not exist and could not be made',
  413: 'the file is larger than the store takes',
  507: 'the store is full',
};

function refusal(status: number): TransferError {
  const redirected = status >= 300 && status <= 399;
  const message = redirected
    ? 'the store answers with a redirect, and those are not followed'
    : `the store answered ${status}`;
  return new TransferError(REASONS[status] ?? message, { retryable: [429, 500, 502, 503, 504].includes(status) });
}
