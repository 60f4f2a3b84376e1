import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../../lib/secret.ts';
import type { SeenRequest, SeenRequests } from '../../model/job/index.ts';
import { type MemberClaim, readMember, writeMember } from '../messages/federation.ts';
import type { MemberKey } from '../peer.ts';

/** What is signed of a request. */
export interface SignedRequest {
  readonly method: string;
  /** As it is sent, from the endpoint on: a proxy may have a path of its own before it. */
  readonly path: string;
  /** As it is sent, without the question mark; empty if there is none. */
  readonly query: string;
  readonly body: Uint8Array | string;
}

/** When it was signed, by the clock of who signs, and what tells it from the same request a moment later. */
interface Stamp {
  readonly time: number;
  readonly nonce: string;
}

/**
 * `unreadable`: no header of ours. `unknown`: nobody knows a key of this member. `mismatch`: not signed with its key, or
 * something else was. `wrong-time`: signed with the key, but too long ago, or by a clock that is ahead.
 */
export type SignatureProblem = 'unreadable' | 'unknown' | 'mismatch' | 'wrong-time';

/**
 * How far clocks may be apart. Shorter: managers whose clocks nobody sets cannot work together. Longer: what somebody
 * recorded can be sent again for longer.
 */
export const SKEW = 5 * 60_000;

/** A member key is known by this: it says nothing about the key. */
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
 * Who signed this request. The time is looked at last: whether a request that nobody signed came in time does not matter.
 * (One with a body is refused by its time before the body is read.) Whether it is the same request once more is not known here: see {@link recordRequest}.
 */
export function verify(
  header: string,
  request: SignedRequest,
  keyOf: (claim: MemberClaim) => Secret | undefined,
  now: number,
): { readonly member: MemberClaim } | { readonly refused: SignatureProblem } {
  const read = readMember(header);
  // Lines are what keeps the parts apart; a server never sees one that has two.
  if ('problems' in read || [request.method, request.path, request.query].some((part) => part.includes('\n'))) {
    return { refused: 'unreadable' };
  }
  const claim = read.value;
  const key = keyOf(claim);
  if (!key) return { refused: 'unknown' };
  if (!timingSafeEqual(mac(request, key, claim), Buffer.from(claim.signature, 'hex'))) return { refused: 'mismatch' };
  return isTimely(claim, now) ? { member: claim } : { refused: 'wrong-time' };
}

/** Was it signed at about this time? */
export const isTimely = ({ time }: Pick<MemberClaim, 'time'>, now: number) => Math.abs(now - time) <= SKEW;

function mac({ method, path, query, body }: SignedRequest, key: Secret, { time, nonce }: Stamp): Buffer {
  const lines = [method, path, query, hash('sha256', body, 'hex'), time, nonce];
  return createHmac('sha256', key.reveal()).update(lines.join('\n')).digest();
}

/**
 * Requests that are known by name. A member asks for an attempt every 30 s, and passes on what people change; what it signed is
 * good for five minutes: more would only make records longer. Fewer: one that comes later than that many of its successors is
 * refused, and signed anew.
 */
const MAX_REMEMBERED = 8;

/**
 * What is known of signed requests that may come once, with this one; undefined if it may have been here before. Those that
 * are too many are known by the time of the latest of them alone: nothing that was signed before it is believed. It is kept
 * where a compare-and-swap lets one of several managers have it.
 */
export function recordRequest(before: SeenRequests | undefined, asking: SeenRequest): SeenRequests | undefined {
  const { last = [], forgotten = Number.NEGATIVE_INFINITY } = before ?? {};
  if (asking.time <= forgotten || last.some(({ nonce }) => nonce === asking.nonce)) return undefined;
  const byTime = [...last, asking].toSorted((a, b) => a.time - b.time);
  const dropped = byTime.slice(0, -MAX_REMEMBERED).at(-1);
  const floor = dropped ? { forgotten: dropped.time } : Number.isFinite(forgotten) ? { forgotten } : {};
  return { last: byTime.slice(-MAX_REMEMBERED), ...floor };
}
