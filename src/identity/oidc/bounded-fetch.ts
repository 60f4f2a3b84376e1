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
  const signal = request.signal ?? AbortSignal.timeout(ISSUER_DEADLINE);
  const response = await fetch(url, { ...request, redirect: 'manual', signal });
  return new Response(await read(response), { status: response.status, headers: response.headers });
}

/** A GET with the same limits. */
export const boundedFetch: Fetch = (url, init = {}) => boundedRequest(url, { ...init, method: 'GET' });

async function read(response: Response): Promise<Uint8Array<ArrayBuffer> | null> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    length += chunk.length;
    if (length > ISSUER_ANSWER_LIMIT) throw new Error(`the answer is longer than ${ISSUER_ANSWER_LIMIT} bytes`);
    chunks.push(chunk);
  }
  // A `Response` with status 204 or 304 may have no body at all, not even an empty one.
  return length === 0 ? null : Buffer.concat(chunks);
}
