import type { AuthenticatedWorker } from '../../federation/index.ts';
import type { Scheduler } from '../../jobs/index.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Secret } from '../../lib/secret.ts';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { JobKey, SeenRequest } from '../../model/job/index.ts';
import type { ClusterStore, Service } from '../../model/service/index.ts';
import type { PeerCredentials, RefusalCode } from '../../peers/index.ts';
import type { JobStore, ObjectStore, ServiceStore } from '../../ports/index.ts';
import type { Random } from '../policies/index.ts';
import type { Scoreboard } from '../scoreboard/index.ts';
import type { CommitOrder, CommitResult } from './commit.ts';
import type { DelegatingFederation, DelegationMember, FederationCache } from './federation-cache.ts';
import type { LeaseTerms } from './lease.ts';

/** What it takes to have the jobs of this cluster run on others. */
export interface OriginDeps {
  readonly store: JobStore;
  readonly services: Pick<ServiceStore, 'get'>;
  readonly scheduler: Scheduler;
  readonly objects: Pick<ObjectStore, 'stagingBucket' | 'bucket' | 'issue' | 'revokeFor' | 'objects' | 'removeObjects'>;
  readonly federations: Pick<FederationCache, 'get'>;
  readonly scoreboard: Pick<
    Scoreboard,
    | 'watch'
    | 'snapshotFor'
    | 'inFlightFor'
    | 'addInFlight'
    | 'noteNoRoom'
    | 'noRoomReason'
    | 'onChange'
    | 'noteDuration'
  >;
  /** What is free on this cluster, and how many jobs wait for it. */
  readonly ownStatus: () => { readonly snapshot: Snapshot; readonly waiting: number };
  /** This cluster, as others know it and reach its store. */
  readonly self: { readonly clusterId: string; readonly store: ClusterStore };
  /** An access token of the owner of a service, for that cluster. Absent: members are asked without. */
  readonly getOwnerToken?: (service: Service, clusterId: string) => Promise<Secret>;
  /** Brings the results of an attempt to their places. What it throws may go better another time. */
  readonly commit: (order: CommitOrder) => Promise<CommitResult>;
  readonly maxEventBytes: number;
  /** Milliseconds that a job waits before it is offered again, unless its service says otherwise. */
  readonly reofferAfter: number;
  /** Are jobs offered when they come and there is no room, and when they have waited? Both if left out. */
  readonly offerJobs?: { readonly onArrival: boolean; readonly whileWaiting: boolean };
  readonly lease: LeaseTerms;
  readonly clock: Clock;
  readonly random: Random;
  readonly meters?: DelegationMeters;
  /** Told of what nobody waits for. */
  readonly report: (problem: unknown, key: JobKey) => void;
}

/** Who speaks, proven by the key of the member. */
export interface Requester {
  /** Of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** That coordinates it, here. */
  readonly service: Service;
  /** With which request. */
  readonly asking: SeenRequest;
}

export const requesterFor = ({ ledger, member, record, asking }: AuthenticatedWorker): Requester => ({
  uid: ledger.uid,
  member: `${member.clusterId}/${member.service}`,
  service: record.service,
  asking,
});

/** Where a member is, for people. */
export const placeInRecord = (member: string): string => member.split('/')[0] ?? member;

/** As whom a member is spoken to about jobs that it has: by its key, or by the owner where it knows no keys. */
export async function credentialsFor(
  { sendsReports, type, credentials, place }: DelegationMember,
  { service }: DelegatingFederation,
  { getOwnerToken }: Pick<OriginDeps, 'getOwnerToken'>,
): Promise<PeerCredentials> {
  return sendsReports || type === 'endpoint' || !getOwnerToken
    ? credentials
    : { ...credentials, bearer: await getOwnerToken(service, place) };
}

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
