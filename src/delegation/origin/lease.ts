/** Milliseconds. */
export interface LeaseTerms {
  /**
   * How long a member may be silent about an attempt. A smaller value loses runs on a slow network; a larger one delays
   * a job whose cluster died. Members report three times in a lease.
   */
  readonly lease: number;
  /** Additional time for clock differences and for reports that are on their way. */
  readonly grace: number;
}

/**
 * How much longer leases last when all clusters are silent at once. A larger value delays jobs whose clusters all died;
 * a smaller one runs all jobs again after a long fault of the origin's own network.
 */
export const LONGEST_DOUBT = 10 * 60_000;

/** What decides about the lease of an attempt. */
export interface Leased {
  /**
   * The address of the manager: one cluster may be a member of several federations, and all of them fall silent with
   * it.
   */
  readonly cluster: string;
  readonly heardAt: number;
}

/**
 * The attempts whose clusters were silent for too long (docs/delegation.md#how). If two or more clusters have attempts
 * and all of them fell silent within one lease, the fault is probably at the origin: then leases last longer, but not
 * forever.
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
  const lastReports = new Map<string, number>();
  for (const { cluster, heardAt } of attempts) {
    lastReports.set(cluster, Math.max(heardAt, lastReports.get(cluster) ?? -Infinity));
  }
  if (lastReports.size < 2) return false;
  const times = [...lastReports.values()];
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return now - last > lease && last - first <= lease;
}
