import type { DelegationMeters } from '../delegation/index.ts';
import type { Meters } from './prometheus.ts';

/** Counts and times what is offered to other clusters, and what becomes of it. */
export function delegationMeters({ offers, decisions, commits, leasesExpired, fenced }: Meters): DelegationMeters {
  return {
    offered: (outcome, seconds) => offers.observe(seconds, { outcome }),
    decided: (seconds) => decisions.observe(seconds),
    committed: (outcome, seconds) => commits.observe(seconds, { outcome }),
    leaseExpired: () => leasesExpired.add(),
    fenced: () => fenced.add(),
  };
}
