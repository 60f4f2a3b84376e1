import type { AskedBefore, Asking } from '../../cluster/index.ts';

/**
 * Requests that are known by name. A member asks for an attempt every 30 s, and passes on what people change; what it signed is
 * good for five minutes: more would only make records longer. Fewer: one that comes later than that many of its successors is
 * refused, and signed anew.
 */
const KEPT = 8;

/**
 * What is known of signed requests that may come once, with this one; undefined if it may have been here before. Those that
 * are too many are known by the time of the latest of them alone: nothing that was signed before it is believed. It is kept
 * where a compare-and-swap lets one of several managers have it.
 */
export function withAsking(before: AskedBefore | undefined, asking: Asking): AskedBefore | undefined {
  const { last = [], forgotten = Number.NEGATIVE_INFINITY } = before ?? {};
  if (asking.time <= forgotten || last.some(({ nonce }) => nonce === asking.nonce)) return undefined;
  const byTime = [...last, asking].toSorted((a, b) => a.time - b.time);
  const dropped = byTime.slice(0, -KEPT).at(-1);
  const floor = dropped ? { forgotten: dropped.time } : Number.isFinite(forgotten) ? { forgotten } : {};
  return { last: byTime.slice(-KEPT), ...floor };
}
