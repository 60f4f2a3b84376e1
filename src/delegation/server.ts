import type { AuthenticatedWorker } from '../federation/index.ts';
import type { Admin, User } from '../identity/index.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey } from '../model/job/index.ts';
import { CLUSTER_ADMIN } from '../model/service/index.ts';
import {
  type AttemptKey,
  DelegationError,
  type ForwardedJob,
  type MemberKey,
  type Offer,
  type Permit,
  type RemoteLogOptions,
  type Report,
} from '../peers/index.ts';
import type { ServiceRecord, ServiceStore } from '../ports/index.ts';
import { ServicesError } from '../services/index.ts';

/**
 * The requests about jobs that other managers send to this one: offers, as their target, and permits and reports, as
 * their origin. The sender is authenticated before any method is called, and so is that the service belongs to its
 * federation. Whether a job, epoch or attempt belongs to the sender is checked by the implementation.
 */
export interface DelegationServer extends TargetServer, OriginServer {}

export interface TargetServer {
  /** Accepts the job, or throws why not. A repeated offer resolves to the same attempt. */
  offer(offer: Offer, from: AuthenticatedOwner): Promise<{ readonly attempt: string }>;

  /**
   * Ends an attempt that was accepted from this federation. Does nothing if there is no such attempt, or if it has
   * ended.
   */
  stop(attempt: JobKey, from: AuthenticatedCoordinator): Promise<void>;

  /** Throws `job-gone` for an attempt that was not accepted from this federation, before the first chunk is read. */
  logs(attempt: JobKey, options: RemoteLogOptions, from: AuthenticatedCoordinator): Promise<AsyncIterable<Uint8Array>>;

  /** The free capacity of this cluster. */
  status(from: AuthenticatedCoordinator): Promise<Snapshot>;
}

export interface OriginServer {
  /** Throws `fenced` or `job-gone`; `bad-signature` for a replayed request, whichever manager got the first one. */
  permit(attempt: AttemptKey, from: AuthenticatedWorker): Promise<Permit>;

  /** Throws `fenced` or `job-gone`. */
  report(attempt: AttemptKey, report: Report, from: AuthenticatedWorker): Promise<void>;

  open(job: ForwardedJob, from: AuthenticatedWorker): Promise<void>;
}

/** The coordinator of a worker of this cluster, authenticated by the member key. */
export interface AuthenticatedCoordinator {
  /** The id of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>` of the worker. */
  readonly member: string;
  /** The worker, which has this key. */
  readonly worker: ServiceRecord;
}

/** The same, for requests that only the owner of the worker may cause. */
export interface AuthenticatedOwner extends AuthenticatedCoordinator {
  /** The owner of the worker, authenticated by a bearer token, or the administrator. */
  readonly principal: Admin | User;
}

/**
 * The worker with this name, if it belongs to this federation; throws `not-found`. It does not authenticate the sender.
 */
export async function findClaimedWorker(
  { uid, member }: Pick<MemberKey, 'uid' | 'member'>,
  service: string,
  { services }: { readonly services: ServiceStore },
): Promise<AuthenticatedCoordinator> {
  const worker = await services.get(service);
  const role = worker?.service.federation;
  if (worker && role?.role === 'worker' && role.uid === uid) return { uid, member, worker };
  throw new ServicesError('not-found', `this federation has no worker "${service}"`);
}

/**
 * The user for whom a job runs: the owner of the worker. The member key proves which federation asks; a token of the
 * owner proves that the owner still agrees, because a federation that the owner has left cannot get one. For services
 * of the administrator the key is enough.
 */
export async function authenticateOwner(
  { service: { owner, definition } }: ServiceRecord,
  authenticate: () => Promise<Admin | User>,
): Promise<Admin | User> {
  if (owner === CLUSTER_ADMIN) return { kind: 'admin' };
  const principal = await authenticate();
  if (principal.kind === 'user' && principal.uid === owner) return principal;
  const why = `"${definition.name}" belongs to another user: offers for it need a token of its owner`;
  throw new DelegationError('offer-not-allowed', why);
}
