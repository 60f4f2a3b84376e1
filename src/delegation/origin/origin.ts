import type { AuthenticatedWorker } from '../../federation/index.ts';
import type { UserNames } from '../../identity/index.ts';
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

/** What the origin needs to delegate jobs. */
export interface OriginDeps {
  readonly store: JobStore;
  readonly services: Pick<ServiceStore, 'get'>;
  /** How users are named on this cluster. */
  readonly users: Pick<UserNames, 'find'>;
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
    | 'durationAt'
    | 'noteTransfer'
    | 'bandwidthAt'
    | 'noteRoom'
    | 'noteOffer'
    | 'offerSecondsAt'
    | 'queueAt'
  >;
  /** The free capacity of this cluster, the number of jobs in its queue, and how long jobs of a service take here. */
  readonly ownStatus: () => {
    readonly snapshot: Snapshot;
    readonly waiting: number;
    readonly durationOf?: (service: string) => number | undefined;
  };
  /** This cluster's id, and its store as other clusters reach it. */
  readonly self: { readonly clusterId: string; readonly store: ClusterStore };
  /** Gets an access token of a service's owner for a cluster whose manager is written in Go. */
  readonly getOwnerToken?: (service: Service, clusterId: string) => Promise<Secret>;
  /** Commits the results of an attempt. If it throws, a later try may succeed. */
  readonly commit: (order: CommitOrder) => Promise<CommitResult>;
  readonly maxEventBytes: number;
  /** How long a job waits before it is offered again, in milliseconds, unless its service defines it. */
  readonly reofferAfter: number;
  /** Are jobs offered when they arrive and there is no free capacity, and while they wait? Both by default. */
  readonly offerJobs?: { readonly onArrival: boolean; readonly whileWaiting: boolean };
  readonly lease: LeaseTerms;
  readonly clock: Clock;
  /** A monotonic clock, in milliseconds, for the duration of offers. */
  readonly elapsed?: () => number;
  readonly random: Random;
  readonly meters?: DelegationMeters;
  /** Receives an event for the audit log when a member has opened a job here. */
  readonly onOpened?: (event: OpenedJob) => void;
  /** Called with errors of background work. */
  readonly report: (problem: unknown, key: JobKey) => void;
}

/** A job that a member opened at this origin. */
export interface OpenedJob {
  readonly service: string;
  readonly job: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** The user who invoked the worker, as the member claims. Empty if it names none that this cluster knows. */
  readonly claimedInvoker: string;
}

/** The authenticated sender of a request: a member, known by its key. */
export interface Requester {
  /** The id of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  /** The service that coordinates the federation here. */
  readonly service: Service;
  /** The signed request, to detect replays. */
  readonly asking: SeenRequest;
}

export const requesterFor = ({ ledger, member, record, asking }: AuthenticatedWorker): Requester => ({
  uid: ledger.uid,
  member: `${member.clusterId}/${member.service}`,
  service: record.service,
  asking,
});

/** The cluster of a member, as records show it. */
export const placeInRecord = (member: string): string => member.split('/')[0] ?? member;

/**
 * The credentials for requests about jobs that a member has: its member key, or a token of the owner for a Go manager.
 */
export async function credentialsFor(
  member: DelegationMember,
  { service }: DelegatingFederation,
  { getOwnerToken }: Pick<OriginDeps, 'getOwnerToken'>,
): Promise<PeerCredentials> {
  const { credentials, place } = member;
  return getOwnerToken && needsOwnerToken(member)
    ? { ...credentials, bearer: await getOwnerToken(service, place) }
    : credentials;
}

/** Does the manager of this member know users only, and no member keys? Only Go managers get a token of the owner. */
export const needsOwnerToken = ({ type, sendsReports }: Pick<DelegationMember, 'type' | 'sendsReports'>): boolean =>
  type === 'oscar' && !sendsReports;

/** Metrics of delegation; times are in seconds. */
export interface DelegationMeters {
  /** A job was offered to a member. `silent`: there was no answer. */
  offered(outcome: 'taken' | 'silent' | RefusalCode, seconds: number): void;
  /** Candidates were ranked. */
  decided(seconds: number): void;
  /** A commit has ended. */
  committed(outcome: 'succeeded' | 'failed', seconds: number): void;
  /** The lease of an attempt has expired. */
  leaseExpired(): void;
  /** A request about an attempt that is not the current one was rejected. */
  fenced(): void;
}

export const NO_METERS: DelegationMeters = {
  offered() {},
  decided() {},
  committed() {},
  leaseExpired() {},
  fenced() {},
};
