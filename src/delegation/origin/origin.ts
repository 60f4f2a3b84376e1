import type { Secret } from '../../base/secret.ts';
import type { Asking, JobKey, JobStore, ServiceStore } from '../../cluster/index.ts';
import type { Line } from '../../jobs/index.ts';
import type { ClusterStore, Service } from '../../service/index.ts';
import type { ObjectStore } from '../../storage/index.ts';
import type { CommitOrder, CommitResult } from '../commit/index.ts';
import type { Chance, Snapshot } from '../policy/index.ts';
import type { Scoreboard } from '../scoreboard/index.ts';
import type { ProvenWorker } from '../server.ts';
import type { LeaseTerms } from './attempt/lease.ts';
import type { Clock } from './clock.ts';
import type { DelegationMeters } from './meters.ts';
import type { WorkingFederations } from './round/members.ts';

/** What it takes to have the jobs of this cluster run on others. */
export interface OriginDeps {
  readonly store: JobStore;
  readonly services: Pick<ServiceStore, 'get'>;
  readonly line: Line;
  readonly objects: Pick<ObjectStore, 'stagingBucket' | 'bucket' | 'issue' | 'revokeFor' | 'objects' | 'removeObjects'>;
  readonly federations: Pick<WorkingFederations, 'of'>;
  readonly board: Pick<Scoreboard, 'interested' | 'snapshotOf' | 'inFlightTo' | 'send' | 'ended'>;
  /** What is free on this cluster, and how many jobs wait for it. */
  readonly own: () => { readonly snapshot: Snapshot; readonly waiting: number };
  /** This cluster, as others know it and reach its store. */
  readonly here: { readonly clusterId: string; readonly store: ClusterStore };
  /** An access token of the owner of a service, for that cluster. Absent: members are asked without. */
  readonly mint?: (service: Service, clusterId: string) => Promise<Secret>;
  /** Brings the results of an attempt to their places. What it throws may go better another time. */
  readonly commit: (order: CommitOrder) => Promise<CommitResult>;
  readonly maxEventBytes: number;
  /** Milliseconds that a job waits before it is offered again, unless its service says otherwise. */
  readonly threshold: number;
  /** Are jobs offered when they come and there is no room, and when they have waited? Both if left out. */
  readonly when?: { readonly arriving: boolean; readonly waiting: boolean };
  readonly lease: LeaseTerms;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly meters?: DelegationMeters;
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
}

/** Who speaks, proven by the key of the member. */
export interface Asker {
  /** Of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** That coordinates it, here. */
  readonly service: Service;
  /** With which request. */
  readonly asking: Asking;
}

export const askerOf = ({ ledger, member, record, asking }: ProvenWorker): Asker => ({
  uid: ledger.uid,
  member: `${member.clusterId}/${member.service}`,
  service: record.service,
  asking,
});

/** Where a member is, for people. */
export const placeOf = (member: string): string => member.split('/')[0] ?? member;
