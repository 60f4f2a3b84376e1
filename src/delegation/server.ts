import type { AuthenticatedWorker } from '../federation/index.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey } from '../model/job/index.ts';
import type { AttemptKey, ForwardedJob, MemberKey, Offer, Permit, RemoteLogOptions, Report } from '../peers/index.ts';
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
  offer(offer: Offer, from: AuthenticatedCoordinator): Promise<{ readonly attempt: string }>;

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

/**
 * The coordinator of a worker of this cluster, authenticated by the member key. The key is enough to run jobs as the
 * owner of the worker: the worker exists only because its owner proved to be the owner when the coordinator created,
 * adopted or re-keyed it with this key (docs/security.md#whom-you-trust-in-a-federation). No message about a job carries
 * a token of the owner.
 */
export interface AuthenticatedCoordinator {
  /** The id of the federation. */
  readonly uid: string;
  /** `<cluster id>/<service>` of the worker. */
  readonly member: string;
  /** The worker, which has this key. */
  readonly worker: ServiceRecord;
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
