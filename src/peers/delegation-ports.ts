import type { Secret } from '../lib/secret.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey, NewJob } from '../model/job/index.ts';
import type { MemberKey } from './peer.ts';

/**
 * The calls between the origin and the target of a job (docs/peer-protocol.md#jobs). Each port has an adapter over HTTP and
 * one for this manager itself. The adapters for members written in Go and for plain endpoints implement `Target` as far as
 * those can.
 */

/** A cluster that runs jobs, as their origin calls it. */
export interface Target {
  /**
   * Asks the target to run a job. Repeating an offer gives the same answer and does not run the job twice. Throws a
   * `PeerError` if there is no answer: then it is unknown whether the target accepted the offer.
   */
  offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer>;

  /** Stops an attempt. Does nothing if the target does not have it, or if it has ended. */
  stop(attempt: TargetAttempt, as: PeerCredentials): Promise<void>;

  /** The output of the attempt's script. Throws a `PeerError` if the target cannot be reached. */
  logs(attempt: TargetAttempt, options: RemoteLogOptions, as: PeerCredentials): AsyncIterable<Uint8Array>;

  /** The free capacity of the cluster, for delegation policies. */
  status(as: PeerCredentials): Promise<Snapshot>;
}

/** The origin of a job, as the target calls it. */
export interface Origin {
  /**
   * Permission to run this attempt, with keys for its files. Calling it again returns keys that expire later. Throws `fenced`,
   * `job-gone` or `federation-gone` (see errors).
   */
  permit(attempt: AttemptKey, as: MemberKey): Promise<Permit>;

  /** Reports the state of the attempt. Repeating a report is harmless. Throws like {@link permit}. */
  report(attempt: AttemptKey, report: Report, as: MemberKey): Promise<void>;

  /** Creates the record of a job that was submitted to a worker. Repeating it with the same id is a no-op. */
  open(job: ForwardedJob, as: MemberKey): Promise<void>;
}

/** Credentials for calls to a member: the member key, and for a manager written in Go a token of the owner. */
export interface PeerCredentials extends MemberKey {
  readonly bearer?: Secret;
}

/** Identifies an attempt on both sides. */
export interface AttemptKey {
  /** The key of the job at the origin. */
  readonly job: JobKey;
  readonly epoch: number;
}

/** Identifies an attempt at the target. */
export interface TargetAttempt extends AttemptKey {
  /** The worker's name. */
  readonly service: string;
}

export interface Offer extends TargetAttempt {
  /** Id of the origin's cluster, for display. */
  readonly from: string;
  readonly event: Uint8Array;
  /** `run`: a synchronous call, whose answer the origin fetches when the job has ended. */
  readonly trigger: NewJob['trigger'];
  /** The job was submitted to this worker and runs nowhere else: it is queued there if no capacity is free. */
  readonly pinned: boolean;
  /** If no capacity is free, the target may queue the job, although another member could run it. */
  readonly queue?: boolean;
  /** W3C `traceparent`. */
  readonly trace?: string;
}

export type OfferAnswer =
  /** The target has stored the attempt under this name. `done`: the job has already run, and there will be no report. */
  | { readonly kind: 'taken'; readonly attempt: string; readonly done?: true; readonly room?: Snapshot }
  /** The target does not run the job. The reason is written by us, never by the target (F40). */
  | { readonly kind: 'refused'; readonly code: RefusalCode; readonly reason: string; readonly room?: Snapshot };

export type RefusalCode =
  | 'no-room'
  | 'input-unreadable'
  /** The same offer was made before with another event. */
  | 'payload-differs'
  /** The target asked for the permit, and the origin has a later attempt. */
  | 'fenced'
  | 'not-allowed'
  /** The worker does not exist, or accepts no jobs. */
  | 'no-worker'
  | 'failed';

/** What a target needs to run an attempt: the location of its files, and keys for exactly those. */
export interface Permit {
  readonly store: OriginStore;
  /** The input object. If absent, the event is the input. */
  readonly input?: { readonly bucket: string; readonly key: string };
  /** All results are written below this prefix; the object `manifest` lists them. */
  readonly staging: { readonly bucket: string; readonly prefix: string; readonly manifest: string };
  /** Milliseconds without a report after which the origin may offer the job to another member. */
  readonly lease: number;
}

export interface OriginStore {
  readonly endpoint: string;
  readonly region: string;
  readonly verify: boolean;
  readonly accessKey: Secret;
  readonly secretKey: Secret;
  readonly sessionToken?: Secret;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
}

/** A report, with the target's room after it. */
export type Report = AttemptReport & { readonly room?: Snapshot | undefined };

type AttemptReport =
  /** Also sent periodically as a heartbeat. */
  | { readonly state: 'running'; readonly startedAt?: number; readonly message?: string }
  /** The attempt did not start and will not: another member may run the job. */
  | { readonly state: 'released'; readonly reason: string; readonly message: string }
  | (Ending & { readonly state: 'failed' })
  | (Ending & { readonly state: 'succeeded'; readonly manifest: string });

interface Ending {
  readonly startedAt?: number;
  readonly finishedAt: number;
  readonly exitCode?: number;
  /** One word for programs, as in a {@link Transition}. */
  readonly reason: string;
  readonly message: string;
}

/** A job that was submitted to a worker. Its rights are those of the service's own token, not those of the caller (S3). */
export interface ForwardedJob {
  /** The coordinator's service, and the id that the worker assigned. */
  readonly job: JobKey;
  readonly event: Uint8Array;
  /** The `sub` of the caller at the worker, for listings; grants no rights. Empty if the caller was no user. */
  readonly invoker: string;
  /** The issuer of the caller. Without it the origin does not know who the caller is. */
  readonly issuer?: string;
}

export interface RemoteLogOptions {
  readonly timestamps: boolean;
  readonly follow: boolean;
  /** The answer of a call in place of its log. */
  readonly answer?: true;
  readonly signal?: AbortSignal;
}
