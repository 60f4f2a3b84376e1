import type { AuthenticatedWorker } from '../federation/index.ts';
import type { Admin, User } from '../identity/index.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey } from '../model/job/index.ts';
import type { AttemptKey, EnteredJob, Offer, Permit, RemoteLogOptions, Report } from '../peers/index.ts';
import type { ServiceRecord } from '../ports/index.ts';

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
  permit(attempt: AttemptKey, from: ProvenWorker): Promise<Permit>;

  /** Throws `fenced` or `job-gone`. */
  report(attempt: AttemptKey, report: Report, from: ProvenWorker): Promise<void>;

  open(job: EnteredJob, from: ProvenWorker): Promise<void>;
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

/** A member of a federation of this cluster. Its jobs are those of `record.service`. */
export type ProvenWorker = AuthenticatedWorker;
