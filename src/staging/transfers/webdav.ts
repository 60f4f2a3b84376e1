import type { HttpAnswer, HttpClient } from '../../lib/http/index.ts';
import type { WebdavAccess } from '../../model/job/index.ts';
import {
  AWAY_STATUSES,
  FULL_STATUS,
  type OutputFile,
  type RemoteStore,
  readAddress,
  STORE_IDLE,
  TransferError,
  toTransferError,
} from './remote-store.ts';

interface Call {
  readonly method: 'GET' | 'PUT' | 'MKCOL';
  /** Without a leading slash. */
  readonly path: string;
  readonly file?: OutputFile;
  readonly signal?: AbortSignal;
}

/** A WebDAV store, over HTTPS with a name and a password. It cannot store the attempt, so a resumed upload is repeated. */
export function webdavStore(access: WebdavAccess, client: HttpClient): RemoteStore {
  const { hostname } = addressOf(access);
  const call = (each: Call) =>
    send(access, client, each).catch((error: unknown) => Promise.reject(toTransferError(error, hostname)));
  const collections = new Map<string, Promise<void>>();

  /** Creates a collection and its parents. Failures are ignored here: the upload then fails with a better reason. */
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
      if (answer.status !== 200) throw refusal(await done(answer));
      const length = answer.headers['content-length'];
      return { body: answer.body, bytes: length === undefined ? undefined : Number(length), host: hostname };
    },
    async write({ key }, file, _by, signal) {
      if (key.includes('/')) await ensure(parentOf(key), signal);
      const status = await done(call({ method: 'PUT', path: key, file, signal }));
      if (status < 200 || status > 299) throw refusal(status);
      return undefined;
    },
    written: async () => undefined,
  };
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/'));

/** Reads an answer to its end, so that the connection can be used again. An answer that breaks off is not an error here. */
async function done(coming: HttpAnswer | Promise<HttpAnswer>): Promise<number> {
  const { status, body } = await coming;
  body.on('error', () => {}).resume();
  return status;
}

function send(access: WebdavAccess, client: HttpClient, call: Call): Promise<HttpAnswer> {
  const { method, path, file, signal } = call;
  const login = Buffer.from(`${access.login}:${access.password.reveal()}`).toString('base64');
  return client.open({
    method,
    url: addressOf(access).origin,
    path: `/${path.split('/').map(encodeURIComponent).join('/')}`,
    headers: {
      authorization: `Basic ${login}`,
      ...(file && { 'content-length': String(file.bytes), 'content-type': 'application/octet-stream' }),
    },
    body: file?.content(),
    signal,
    idle: STORE_IDLE,
  });
}

const addressOf = (access: WebdavAccess) => readAddress(`https://${access.hostname}`);

const REASONS: Readonly<Record<number, string>> = {
  401: 'the name or the password is wrong',
  403: 'access is denied',
  404: 'it does not exist',
  409: 'its folder does not exist and could not be created',
  413: 'the file is larger than the store accepts',
  507: 'the store is full',
};

function refusal(status: number): TransferError {
  const redirected = status >= 300 && status <= 399;
  const message = redirected
    ? 'the store answered with a redirect, which is not followed'
    : `the store answered ${status}`;
  const retryable = AWAY_STATUSES.includes(status);
  return new TransferError(REASONS[status] ?? message, { retryable, full: status === FULL_STATUS });
}
