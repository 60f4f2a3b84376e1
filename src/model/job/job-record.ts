import type { Version } from '../../lib/version.ts';

/**
 * In the order of a job's life. `offering` and `delegated` are states of jobs that another cluster may run; `committing` is
 * used for their results at both sides. The last three states are final.
 */
export const JOB_STATES = [
  'accepted',
  'queued',
  'offering',
  'delegated',
  'running',
  'committing',
  'succeeded',
  'failed',
  'cancelled',
] as const;

export type JobState = (typeof JOB_STATES)[number];

/** Both parts identify a job: jobs of two services may have the same id if a long service name was cut. */
export interface JobKey {
  readonly service: string;
  readonly id: string;
}

/** The resources of a job: millicores, bytes, devices. */
export interface Demand {
  readonly cpu: number;
  readonly memory: number;
  readonly gpu: number;
}

/** The fields of a job that are set when it is accepted and never change. */
export interface NewJob extends JobKey {
  readonly serviceUid: string;
  /** Owner of the service. Owners take turns in the queue. */
  readonly owner: string;
  /**
   * Whose rights the job has at the object store: those of the calling user, or of the owner of the service for calls with its
   * token and for events of the store; never what an event claims (S3). A uid, or `cluster_admin`.
   */
  readonly principal: string;
  /** The user that caused the job, for listings and usage; empty if unknown. It grants no rights. */
  readonly invoker: string;
  /** How the job arrived: an event of the cluster's store, `/job`, or the synchronous `/run`. */
  readonly trigger: 'storage' | 'job' | 'run';
  readonly byToken: boolean;
  readonly demand: Demand;
  readonly acceptedAt: number;
  /** The object that caused it, for a storage event. */
  readonly object?: { readonly bucket: string; readonly key: string; readonly modifiedAt?: number };
  /** The member of the federation at which the job entered, `<cluster id>/<service>`. */
  readonly openedBy?: string;
  /**
   * Set if a Go manager delegated the job, by a call that chose the id: the cluster id that the caller claimed, or empty. It is
   * not verified and grants no rights.
   */
  readonly delegatedFrom?: string;
  /** Set if the job is hosted: it is an attempt of a job of another cluster. */
  readonly taken?: TakenJob;
}

/** The accepted offer of another cluster. All fields together identify an offer (docs/peer-protocol.md#jobs). */
export interface TakenJob {
  /** Of the federation. */
  readonly uid: string;
  /** The member that got the offer, `<cluster id>/<service>`: one cluster may be several members. */
  readonly member: string;
  /** The id of the origin's cluster, for its share of this cluster. Absent in records of earlier versions. */
  readonly origin?: string;
  /** The job at the origin. */
  readonly job: JobKey;
  readonly epoch: number;
  /** SHA-256 of the payload of the offer, in hexadecimal: one epoch has one payload. */
  readonly payload: string;
  /** Where its files are in the origin's store, so that a started attempt does not need the origin's manager. */
  readonly files?: TakenFiles;
  /** A caller waits at the origin for the answer. */
  readonly answer?: true;
}

/** The files of one hosted attempt. */
interface TakenFiles {
  /** Absent: the event is the input. */
  readonly input?: { readonly bucket: string; readonly key: string };
  /** All results are written below the prefix, and their list to the object `manifest`. */
  readonly staging: { readonly bucket: string; readonly prefix: string; readonly manifest: string };
}

/** Why and when a job entered a state. */
export interface Transition {
  readonly state: JobState;
  readonly at: number;
  /** A code for programs: `Accepted`, `NoRoom`, `Started`, `Completed`, `ScriptFailed`, `OutOfMemory`, … */
  readonly reason: string;
  /** A sentence for users. */
  readonly message: string;
  /** Id of the cluster where it happened. */
  readonly place: string;
}

/** One try to run a job. */
export interface AttemptRecord {
  readonly name: string;
  readonly epoch: number;
  /** Id of the cluster that runs it. */
  readonly place: string;
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode?: number;
}

/** Why a job was offered to a member. */
export interface DecisionRecord {
  readonly at: number;
  /** Epoch of the resulting attempt; absent if no member was chosen. */
  readonly epoch?: number;
  readonly policy: string;
  readonly chosen?: string;
  readonly candidates: readonly DecidedCandidate[];
}

interface DecidedCandidate {
  readonly member: string;
  readonly score?: number;
  readonly refusal?: string;
  /** Age of the figures of its cluster in seconds. Absent if there were none, or for this cluster. */
  readonly age?: number;
}

/**
 * The member that a job was offered to. It is valid while its epoch equals the epoch of the job, and the job is `offering`,
 * `delegated` or `committing`.
 */
export interface Placement {
  /** `<cluster id>/<service>`, or the URL of an endpoint. */
  readonly member: string;
  readonly epoch: number;
  /** When the member got its permit, and when its last report arrived. */
  readonly permittedAt?: number;
  readonly heardAt?: number;
  /** The member's requests for a permit: each is answered once, whichever manager receives it. */
  readonly asked?: SeenRequests;
  /** SHA-256 of the manifest, once the attempt has succeeded: only the results of this manifest are committed. */
  readonly manifest?: string;
}

/** A signed request: when it was signed, by the signer's clock, and its nonce. */
export interface SeenRequest {
  readonly time: number;
  readonly nonce: string;
}

export interface SeenRequests {
  readonly last: readonly SeenRequest[];
  /** When the newest request that is no longer in the list was signed. */
  readonly forgotten?: number;
}

/** How a hosted attempt ended; stored until the origin has confirmed the report. */
export interface PendingResult {
  readonly outcome: 'succeeded' | 'failed' | 'cancelled';
  readonly reason: string;
  readonly message: string;
  readonly finishedAt: number;
  readonly manifest?: string;
}

/** The fields of a job that change. */
export interface JobProgress {
  readonly state: JobState;
  /** Progress within the state: `pulling image: 40 %`. */
  readonly message: string;
  /** Increases with every attempt; messages about an attempt carry its epoch. */
  readonly epoch: number;
  /** When the script started and ended. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode?: number;
  /** Its cancellation was requested while it ran. */
  readonly cancelRequested?: { readonly at: number; readonly reason: string };
  readonly placement?: Placement;
  readonly handIn?: PendingResult;
  readonly timeline: readonly Transition[];
  readonly attempts: readonly AttemptRecord[];
  readonly decisions: readonly DecisionRecord[];
}

export interface JobRecord extends NewJob, JobProgress {
  /**
   * Why the cluster keeps a queued job suspended, whatever room there is, or why it evicts a running one. Only clusters with
   * admission control (Kueue) set this; it is computed, not stored.
   */
  readonly held?: string;
  readonly eventBytes: number;
  readonly version: Version;
}

/** More of each are not kept: records are small. */
export const KEPT_TRANSITIONS = 20;
export const KEPT_ATTEMPTS = 5;

/** Complete, or it does not compile. */
const NEW_JOB: Record<keyof NewJob, true> = {
  service: true,
  id: true,
  serviceUid: true,
  owner: true,
  principal: true,
  invoker: true,
  trigger: true,
  byToken: true,
  demand: true,
  acceptedAt: true,
  object: true,
  openedBy: true,
  delegatedFrom: true,
  taken: true,
};

const PROGRESS: Record<keyof JobProgress, true> = {
  state: true,
  message: true,
  epoch: true,
  startedAt: true,
  finishedAt: true,
  exitCode: true,
  cancelRequested: true,
  placement: true,
  handIn: true,
  timeline: true,
  attempts: true,
  decisions: true,
};

const NEW_JOB_FIELDS = Object.keys(NEW_JOB);
const PROGRESS_FIELDS = Object.keys(PROGRESS);

/** Picks the fields of a new job: a whole record has the same type, and its state must not be stored with it. */
export const pickNewJob = (job: NewJob): NewJob => pick(job, NEW_JOB_FIELDS) as unknown as NewJob;

/** Picks the fields that may change: a whole record has the same type, and its other fields must not be written. */
export const pickProgress = (change: Partial<JobProgress>): Partial<JobProgress> => pick(change, PROGRESS_FIELDS);

function pick(value: object, fields: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const field of fields) {
    if (Object.hasOwn(value, field)) picked[field] = (value as Record<string, unknown>)[field];
  }
  return picked;
}
