import type { AuthenticatedWorker } from '../federation/index.ts';
import type { Admin, User } from '../identity/index.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey } from '../model/job/index.ts';
import { CLUSTER_ADMIN } from '../model/service/index.ts';
import {
  type AttemptKey,
  DelegationError,
  type EnteredJob,
  type MemberKey,
  type Offer,
  type Permit,
  type RemoteLogOptions,
  type Report,
} from '../peers/index.ts';
import type { ServiceRecord, ServiceStore } from '../ports/index.ts';
import { ServicesError } from '../services/index.ts';

/**
 * What this manager answers when others speak of jobs: as the target of their offers, and as the origin of the jobs they
 * run. Who asks is proven before any of it is called, and that they speak of a service of their own federation; whether a
 * job, an epoch or an attempt is theirs is for the implementation to say.
 */
export interface DelegationServer extends TargetServer, OriginServer {}

export interface TargetServer {
  /** Takes the job, or throws why not. The same offer again: the same attempt. */
  offer(offer: Offer, from: AuthenticatedOwner): Promise<{ readonly attempt: string }>;

  /** Ends an attempt that was taken from this federation. One that is not there, or has ended, or is none of theirs: nothing. */
  stop(attempt: JobKey, from: AuthenticatedCoordinator): Promise<void>;

  /** Throws `job-gone` for what was not taken from this federation. It must throw before the first piece is asked for. */
  logs(attempt: JobKey, options: RemoteLogOptions, from: AuthenticatedCoordinator): Promise<AsyncIterable<Uint8Array>>;

  /** What is free here. */
  status(from: AuthenticatedCoordinator): Promise<Snapshot>;
}

export interface OriginServer {
  /** Throws `fenced` or `job-gone`; `bad-signature` for a request that was here before, at whichever manager. */
  permit(attempt: AttemptKey, from: AuthenticatedWorker): Promise<Permit>;

  /** Throws `fenced` or `job-gone`. */
  report(attempt: AttemptKey, report: Report, from: AuthenticatedWorker): Promise<void>;

  open(job: EnteredJob, from: AuthenticatedWorker): Promise<void>;
}

/** The coordinator of a worker of this cluster, known by the key that they share. */
export interface AuthenticatedCoordinator {
  /** Of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>`: who is asked. */
  readonly member: string;
  /** The service of that name, which has this very key. */
  readonly worker: ServiceRecord;
}

/** The same, for what only the owner of the worker may have done. */
export interface AuthenticatedOwner extends AuthenticatedCoordinator {
  /** Who owns the worker: proven by a bearer, except for the services of the administrator. */
  readonly principal: Admin | User;
}

/** The worker that this federation has here under that name; throws `not-found`. It proves nothing yet. */
export async function findClaimedWorker(
  { uid, member }: Pick<MemberKey, 'uid' | 'member'>,
  service: string,
  { services }: { readonly services: ServiceStore },
): Promise<AuthenticatedCoordinator> {
  const worker = await services.get(service);
  const role = worker?.service.federation;
  if (worker && role?.role === 'worker' && role.uid === uid) return { uid, member, worker };
  throw new ServicesError('not-found', `there is no worker "${service}" of this federation`);
}

/**
 * Who a job runs for: the owner of the worker. A key says which federation asks; that its owner still lets it is proven by a
 * token of theirs, which a federation that they left cannot have. The administrator's services are vouched for by the key.
 */
export async function authenticateOwner(
  { service: { owner, definition } }: ServiceRecord,
  authenticate: () => Promise<Admin | User>,
): Promise<Admin | User> {
  if (owner === CLUSTER_ADMIN) return { kind: 'admin' };
  const principal = await authenticate();
  if (principal.kind === 'user' && principal.uid === owner) return principal;
  const why = `"${definition.name}" belongs to somebody else: offers for it need a token of its owner`;
  throw new DelegationError('offer-not-allowed', why);
}
