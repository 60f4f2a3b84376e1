import type { Secret } from '../lib/secret.ts';
import type { Snapshot } from '../model/cluster-snapshot.ts';
import type { JobKey, NewJob } from '../model/job/index.ts';
import type { MemberKey } from './peer.ts';

/**
 * What an origin and a target say to each other about a job (docs/peer-protocol.md#jobs). One adapter of each port
 * speaks HTTP, one is this manager itself; members written in Go and plain endpoints have adapters with less behind
 * them.
 */

/** Another cluster, as the origin of jobs needs it. */
export interface Target {
  /**
   * Asks it to run a job. The same offer again is answered alike and runs nothing twice. Throws a `PeerError` when there is
   * no answer: then it is not known what became of it.
   */
  offer(offer: Offer, as: PeerCredentials): Promise<OfferAnswer>;

  /** Ends an attempt there that is not wanted any more. One that is not there, or has ended: nothing. */
  stop(attempt: TargetAttempt, as: PeerCredentials): Promise<void>;

  /** What the script of an attempt printed there. Throws a `PeerError` when nobody can be asked. */
  logs(attempt: TargetAttempt, options: RemoteLogOptions, as: PeerCredentials): AsyncIterable<Uint8Array>;

  /** What is free there, for who decides where jobs go. */
  status(as: PeerCredentials): Promise<Snapshot>;
}

/** The origin of a job, as the cluster that runs it needs it. */
export interface Origin {
  /** Leave to run this attempt, with keys for its files; again: keys that work longer. Throws `fenced`, `job-gone` or `federation-gone` (see errors). */
  permit(attempt: AttemptKey, as: MemberKey): Promise<Permit>;

  /** Says how it goes. A repeated report is harmless. Throws like {@link permit}. */
  report(attempt: AttemptKey, report: Report, as: MemberKey): Promise<void>;

  /** Opens a job that entered here. The same id again: the same job. */
  open(job: ForwardedJob, as: MemberKey): Promise<void>;
}

/** Who speaks to a member: the federation, by the key of the member; and its owner, where there is a grant. */
export interface PeerCredentials extends MemberKey {
  readonly bearer?: Secret;
}

/** One attempt, as both sides know it. */
export interface AttemptKey {
  /** At the origin. */
  readonly job: JobKey;
  readonly epoch: number;
}

/** One attempt, as the target keeps it. */
export interface TargetAttempt extends AttemptKey {
  /** Of the worker. */
  readonly service: string;
}

export interface Offer extends TargetAttempt {
  /** Id of the origin's cluster, for people. */
  readonly from: string;
  readonly event: Uint8Array;
  readonly trigger: Exclude<NewJob['trigger'], 'run'>;
  /** It entered there and is run nowhere else: it waits there if there is no room. */
  readonly pinned: boolean;
  /** W3C `traceparent`. */
  readonly trace?: string;
}

export type OfferAnswer =
  /** It is durable there, under this name. `done`: it has run already, and nobody will say how. */
  | { readonly kind: 'taken'; readonly attempt: string; readonly done?: true }
  /** It does not run there. The reason is a sentence of ours, never what the other side wrote (F40). */
  | { readonly kind: 'refused'; readonly code: RefusalCode; readonly reason: string };

export type RefusalCode =
  | 'no-room'
  | 'input-unreadable'
  /** Another event under the same offer. */
  | 'payload-differs'
  /** It asked for the permit, and another attempt is current by now. */
  | 'fenced'
  | 'not-allowed'
  /** The worker is not there, or takes no jobs. */
  | 'no-worker'
  | 'failed';

/** What a target needs to run an attempt: where its files are, and keys for exactly those. */
export interface Permit {
  readonly store: OriginStore;
  /** The object that is the input. Absent: the event is. */
  readonly input?: { readonly bucket: string; readonly key: string };
  /** All results go below this prefix; the list of them is the object `manifest`. */
  readonly staging: { readonly bucket: string; readonly prefix: string; readonly manifest: string };
  /** Milliseconds of silence after which somebody else may be asked. */
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

export type Report =
  /** Also says, every now and then, that it is still there. */
  | { readonly state: 'running'; readonly startedAt?: number; readonly message?: string }
  /** It was not begun and will not be: somebody else may. */
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

/** A job that came to a worker. Its rights are those that the service's own token has, whoever called (S3). */
export interface ForwardedJob {
  /** Of the coordinator's service, and the id that the worker gave it. */
  readonly job: JobKey;
  readonly event: Uint8Array;
  /** Who called there, for listings; gives no right. */
  readonly invoker: string;
}

export interface RemoteLogOptions {
  readonly timestamps: boolean;
  readonly follow: boolean;
  readonly signal?: AbortSignal;
}
