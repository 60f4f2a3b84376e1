import type { Catalog } from '../../catalog/index.ts';
import type { Audit } from '../audit.ts';

/**
 * What a manager does when the manager of another cluster asks (design §7, §8): one verb per file. A worker is a service
 * like others, with a role: its data is in the store of the coordinator, and it changes when the coordinator says so.
 */
export interface Workers {
  readonly catalog: Catalog;
  /** Names this cluster, whatever address it is asked under. */
  readonly instance: string;
  /** Hears of what somebody may ask about later. */
  readonly audit?: Audit;
}

/** Enough for any burst of writers to one service; more would be a fault, not contention. */
export const ATTEMPTS = 8;
