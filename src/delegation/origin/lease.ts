/** Milliseconds. */
export interface LeaseTerms {
  /**
   * How long a member may be silent about an attempt that it has. Shorter: a slow network costs a run. Longer: a job whose
   * cluster died waits longer. Members speak three times in it.
   */
  readonly lease: number;
  /** And then somewhat longer, for clocks and for words that are on their way. */
  readonly grace: number;
}

/**
 * How long the end of leases waits when everybody is silent at once. Longer: jobs of clusters that all died wait. Shorter:
 * a long fault of this cluster's own network has every job run again.
 */
export const LONGEST_DOUBT = 10 * 60_000;

/** What of an attempt counts: which cluster has it, and when it last spoke of it. */
export interface Leased {
  /** By where its manager is: it may be the member of several federations, and all of them fall silent with it. */
  readonly cluster: string;
  readonly heardAt: number;
}

/**
 * The attempts whose clusters were silent for too long (docs/delegation.md#how). Where two clusters or more have
 * attempts, and all of them fell silent within one lease, the fault is probably here: then it waits, but not for ever.
 */
export function expiredLeases<A extends Leased>(
  attempts: readonly A[],
  now: number,
  { lease, grace }: LeaseTerms,
): A[] {
  const silent = (heardAt: number) => now - heardAt;
  const allowed = lease + grace + (inDoubt(attempts, now, lease) ? LONGEST_DOUBT : 0);
  return attempts.filter(({ heardAt }) => silent(heardAt) > allowed);
}

function inDoubt(attempts: readonly Leased[], now: number, lease: number): boolean {
  const lastWords = new Map<string, number>();
  for (const { cluster, heardAt } of attempts) {
    lastWords.set(cluster, Math.max(heardAt, lastWords.get(cluster) ?? -Infinity));
  }
  if (lastWords.size < 2) return false;
  const words = [...lastWords.values()];
  const [first, last] = [Math.min(...words), Math.max(...words)];
  return now - last > lease && last - first <= lease;
}
