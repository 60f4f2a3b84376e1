import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../../lib/secret.ts';
import type { SeenRequest, SeenRequests } from '../../model/job/index.ts';
import { type MemberClaim, readMember, writeMember } from '../messages/federation.ts';
import type { MemberKey } from '../peer.ts';

/** The signed parts of a request. */
export interface SignedRequest {
  readonly method: string;
  /** As sent, relative to the endpoint: a proxy may add a path before it. */
  readonly path: string;
  /** As sent, without the question mark; empty if there is no query. */
  readonly query: string;
  readonly body: Uint8Array | string;
  /** Replaces the SHA-256 of the body, in hexadecimal, before the body is read. */
  readonly digest?: string | undefined;
}

/** The time of signing, by the signer's clock, and a nonce that distinguishes repeated requests. */
interface Stamp {
  readonly time: number;
  readonly nonce: string;
}

/**
 * `unreadable`: the header or the request is malformed. `unknown`: no key of this member is known. `mismatch`: the signature
 * was made with another key or for another request. `wrong-time`: the signature is valid, but too old or from the future.
 */
export type SignatureProblem = 'unreadable' | 'unknown' | 'mismatch' | 'wrong-time';

/**
 * The allowed difference between two clocks. A smaller value excludes managers without time synchronization; a larger one
 * extends the time in which a recorded request can be replayed.
 */
export const SKEW = 5 * 60_000;

/** The id under which a member key is stored. It does not reveal the key. */
export function memberKeyId(key: Secret): string {
  return hash('sha256', key.reveal(), 'hex');
}

/**
 * The value of `X-Oscar-Member` for a request.
 *
 * @example
 * sign({ method: 'GET', path: '/system/services/cow/federation', query: '', body: '' }, memberKey, { time: Date.now(), nonce });
 */
export function sign(request: SignedRequest, { uid, member, key }: MemberKey, { time, nonce }: Stamp): string {
  return writeMember({ uid, member, time, nonce, signature: mac(request, key, { time, nonce }).toString('hex') });
}

/**
 * Verifies the signature of a request and returns the member that signed it. The time is checked last, because it means
 * nothing without a valid signature.
 * Replays are not detected here: see {@link recordRequest}.
 */
export function verify(
  header: string,
  request: SignedRequest,
  keyOf: (claim: MemberClaim) => Secret | undefined,
  now: number,
): { readonly member: MemberClaim } | { readonly refused: SignatureProblem } {
  const read = readMember(header);
  // The signed text separates its parts by line breaks. An HTTP server never receives a part that contains one.
  if ('problems' in read || [request.method, request.path, request.query].some((part) => part.includes('\n'))) {
    return { refused: 'unreadable' };
  }
  const claim = read.value;
  const key = keyOf(claim);
  if (!key) return { refused: 'unknown' };
  if (!timingSafeEqual(mac(request, key, claim), Buffer.from(claim.signature, 'hex'))) return { refused: 'mismatch' };
  return isTimely(claim, now) ? { member: claim } : { refused: 'wrong-time' };
}

/** Is the time of signing within {@link SKEW} of now? */
export const isTimely = ({ time }: Pick<MemberClaim, 'time'>, now: number) => Math.abs(now - time) <= SKEW;

/** Announces the digest of the body (RFC 9530 §2), so that the signature can be verified before the body is read. */
export const DIGEST_HEADER = 'content-digest';

export const writeContentDigest = (body: Uint8Array | string) => `sha-256=:${hash('sha256', body, 'base64')}:`;

/** The SHA-256 in hexadecimal; undefined if the header is absent or has another form. */
export function readContentDigest(header: string | undefined): string | undefined {
  const [, base64] = /^sha-256=:([A-Za-z0-9+/]{43}=):$/.exec(header ?? '') ?? [];
  return base64 === undefined ? undefined : Buffer.from(base64, 'base64').toString('hex');
}

function mac({ method, path, query, body, digest }: SignedRequest, key: Secret, { time, nonce }: Stamp): Buffer {
  const lines = [method, path, query, digest ?? hash('sha256', body, 'hex'), time, nonce];
  return createHmac('sha256', key.reveal()).update(lines.join('\n')).digest();
}

/**
 * Requests that are remembered by their nonce. A member asks for the permit of an attempt every 30 s, and a signature is valid
 * for five minutes, so a larger value only makes records longer. With a smaller one, a request that arrives after that many
 * later ones is rejected, and must be signed again.
 */
const MAX_REMEMBERED = 8;

/**
 * Adds a request to the seen ones, for requests that are accepted only once. Undefined if the request may be a replay. Of
 * requests beyond {@link MAX_REMEMBERED} only the latest time is kept, and all requests signed at or before it are rejected.
 * The caller stores the result with a compare-and-swap, so that only one of several managers accepts the request.
 */
export function recordRequest(before: SeenRequests | undefined, asking: SeenRequest): SeenRequests | undefined {
  const { last = [], forgotten = Number.NEGATIVE_INFINITY } = before ?? {};
  if (asking.time <= forgotten || last.some(({ nonce }) => nonce === asking.nonce)) return undefined;
  const byTime = [...last, asking].toSorted((a, b) => a.time - b.time);
  const dropped = byTime.slice(0, -MAX_REMEMBERED).at(-1);
  const floor = dropped ? { forgotten: dropped.time } : Number.isFinite(forgotten) ? { forgotten } : {};
  return { last: byTime.slice(-MAX_REMEMBERED), ...floor };
}
