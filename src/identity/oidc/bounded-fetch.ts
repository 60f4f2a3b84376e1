import { HttpClient } from '../../lib/http/index.ts';

/**
 * How long an issuer may take to answer. Shorter: a busy issuer counts as down. Longer: callers whose request needs the
 * issuer wait longer before they get an error.
 */
export const ISSUER_DEADLINE = 5_000;

/**
 * Longest answer that is read from an issuer. Smaller: userinfo of a user with many groups is rejected; metadata and keys are
 * a few kilobytes. Larger: a malicious issuer can use more of the manager's memory.
 */
export const ISSUER_ANSWER_LIMIT = 256 * 1024;

const client = new HttpClient({ verify: true });

export type Fetch = (
  url: string,
  init?: { headers?: Headers | Record<string, string>; signal?: AbortSignal },
) => Promise<Response>;

interface BoundedRequest {
  readonly method: string;
  readonly headers?: Headers | Record<string, string>;
  readonly body?: URLSearchParams;
  readonly signal?: AbortSignal;
}

/**
 * A request with a deadline for the whole answer, a limit on its length, and no redirects. The operator chose the address
 * of the issuer, which may be plain `http`, but not the target of a redirect.
 */
export async function boundedRequest(url: string, request: BoundedRequest): Promise<Response> {
  const { method, signal, body } = request;
  const headers = new Headers(request.headers);
  if (body) headers.set('content-type', 'application/x-www-form-urlencoded;charset=UTF-8');
  const sent = {
    method,
    url,
    headers: Object.fromEntries(headers),
    body: body?.toString(),
    maxBytes: ISSUER_ANSWER_LIMIT,
  };
  const answer = await client
    .send({ ...sent, ...(signal ? { signal } : { deadline: ISSUER_DEADLINE }) })
    .catch((error: unknown) => Promise.reject(signal?.aborted ? signal.reason : error));
  // A `Response` with status 204 or 304 may have no body at all, not even an empty one.
  const content = answer.body.length === 0 ? null : new Uint8Array(answer.body);
  const received = Object.entries(answer.headers).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return new Response(content, { status: answer.status, headers: received });
}

/** A GET with the same limits. */
export const boundedFetch: Fetch = (url, init = {}) => boundedRequest(url, { ...init, method: 'GET' });
