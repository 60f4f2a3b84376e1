import type { Version } from '../cluster/index.ts';

/**
 * What the coordinator knows about its federation, in one entry of the journal (`federation/<uid>`): ids, addresses, digests
 * and states, never definitions or secrets. Whoever changes it holds the version that it read, so that there is one writer at
 * a time, and whoever comes after a crash reads what was begun.
 */
export interface Ledger {
  readonly uid: string;
  /** Of the service at the coordinator. */
  readonly service: string;
  readonly serviceUid: string;
  /**
   * `creating`: without `committed` all of it is undone. `active`: members are brought to the revision. `ending`: the service
   * is gone, the members have to be told.
   */
  readonly phase: 'creating' | 'active' | 'ending';
  readonly revision: number;
  readonly begunAt: number;
  readonly members: readonly LedgerMember[];
}

export interface LedgerMember {
  readonly clusterId: string;
  readonly service: string;
  readonly endpoint: string;
  readonly verify: boolean;
  readonly guarded: boolean;
  readonly kind: 'oscar' | 'upstream';
  /** SHA-256 of the member key, which is in the room `member` under this id. */
  readonly keyId: string;
  /** Of the key that is to follow it: the member may have taken it up already. */
  readonly nextKeyId?: string;
  /** When the member took up its key. */
  readonly keyedAt?: number;
  /**
   * `wanted`: to be made. `made`: it answered so, with this revision. `leaving`: gets no new work, and is ended when it has
   * none. `undoing`: to be ended at once. `conflict`: something else has its name. `left`: its owner ended it there.
   */
  readonly state: 'wanted' | 'made' | 'leaving' | 'undoing' | 'conflict' | 'left';
  /** How it is ended. */
  readonly end?: 'undo' | 'detach';
  /** It is ended at once, whatever work it has. */
  readonly force?: boolean;
  readonly revision?: number;
  readonly digest?: string;
  readonly instance?: string;
  /** When it last answered, and why it did not since. */
  readonly lastSeen?: number;
  readonly reason?: string;
  readonly since: number;
}

export interface LedgerEntry {
  readonly ledger: Ledger;
  readonly version: Version;
}

export const memberId = ({ clusterId, service }: Pick<LedgerMember, 'clusterId' | 'service'>) =>
  `${clusterId}/${service}`;

/** All keys by which the member may know this federation. */
export const keyIdsOf = ({ keyId, nextKeyId }: Pick<LedgerMember, 'keyId' | 'nextKeyId'>): string[] =>
  nextKeyId === undefined ? [keyId] : [keyId, nextKeyId];
