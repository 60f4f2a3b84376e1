import { noteServerTime } from '../lib/clock.ts';
import { authorization, sessionExpired } from '../session/session.ts';
import type { Operations } from './schema.ts';

/** An answer other than 2xx, with the sentence of the manager. */
export class ApiError extends Error {
  readonly status: number;
  readonly retryAfterSeconds: number | undefined;

  constructor(status: number, message: string, retryAfterSeconds?: number) {
    super(message);
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The manager did not answer. */
export class ConnectionError extends Error {}

type Operation = keyof Operations;
type Query<Op extends Operation> = Operations[Op] extends { readonly query: infer Name extends string }
  ? Partial<Record<Name, string>>
  : never;

export interface CallOptions<Op extends Operation> {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Query<Op>;
  readonly body?: unknown;
  readonly ifMatch?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer<Op extends Operation> {
  readonly data: Operations[Op]['response'];
  readonly etag: string | undefined;
  readonly headers: Headers;
}

/** Calls an operation of the OpenAPI document, for example `call('GET /system/jobs/{name}', { path: { name } })`. */
export async function call<Op extends Operation>(operation: Op, options: CallOptions<Op> = {}): Promise<Answer<Op>> {
  const [method = 'GET', template = ''] = operation.split(' ');
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(options.path?.[name] ?? ''));
  const query = new URLSearchParams(
    Object.entries(options.query ?? {}).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
  const response = await request(`${path}${query.size > 0 ? `?${query}` : ''}`, {
    method,
    ...(options.body !== undefined && {
      body: JSON.stringify(options.body),
      headers: { 'content-type': 'application/json' },
    }),
    ...(options.ifMatch !== undefined && {
      headers: { 'content-type': 'application/json', 'if-match': options.ifMatch },
    }),
    signal: options.signal ?? null,
  });
  const text = await response.text();
  return {
    data: (isJson(response) && text !== '' ? JSON.parse(text) : text) as Operations[Op]['response'],
    etag: response.headers.get('etag') ?? undefined,
    headers: response.headers,
  };
}

/** Sends a request with the credentials of the session. Rejects with {@link ApiError} unless the answer is 2xx. */
export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  headers.set('authorization', await authorization());
  const response = await fetch(path, { ...init, headers, credentials: 'omit', cache: 'no-store' }).catch(
    (cause: unknown) => {
      if (init.signal?.aborted) throw cause;
      throw new ConnectionError('the manager does not answer', { cause });
    },
  );
  noteServerTime(response.headers.get('date'));
  if (response.ok) return response;
  if (response.status === 401) sessionExpired();
  const text = (await response.text()).trim();
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  throw new ApiError(
    response.status,
    text || response.statusText,
    Number.isFinite(retryAfter) ? retryAfter : undefined,
  );
}

const isJson = (response: Response) => response.headers.get('content-type')?.includes('json') ?? false;
