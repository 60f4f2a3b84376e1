import type { RefusalCode } from '../../peers/index.ts';

/** What is counted and timed; times in seconds. */
export interface DelegationMeters {
  /** A member was asked to take a job. `silent`: there was no answer. */
  offered(outcome: 'taken' | 'silent' | RefusalCode, seconds: number): void;
  /** Candidates were ranked. */
  decided(seconds: number): void;
  /** Results of a job were written to their places, or could not be. */
  committed(outcome: 'succeeded' | 'failed', seconds: number): void;
  /** A member was silent for too long. */
  leaseExpired(): void;
  /** Somebody spoke for an attempt that is not the current one. */
  fenced(): void;
}

export const NO_METERS: DelegationMeters = {
  offered() {},
  decided() {},
  committed() {},
  leaseExpired() {},
  fenced() {},
};
