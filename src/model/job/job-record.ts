import type { Version } from '../../lib/version.ts';

/**
 * In the order of a job's life. `offering`, `delegated` and `committing` are of jobs that run on another cluster. The last
 * three are final.
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

/** A job is known by both: ids of two services may be equal, where a long name was cut. */
export interface JobKey {
  readonly service: string;
  readonly id: string;
}

/** What a job needs to run: millicores, bytes, devices. */
export interface Demand {
  readonly cpu: number;
  readonly memory: number;
  readonly gpu: number;
}

/** What is known of a job when it is accepted, and never changes. */
export interface NewJob extends JobKey {
  readonly serviceUid: string;
  /** Of the service. Owners take turns. */
  readonly owner: string;
  /**
   * Whose rights it has at the object store: the user who called, or the owner of the service for its token and for
   * events of the store; never what an event says (S3). A uid, or `cluster_admin`.
   */
  readonly principal: string;
  /** Who caused it, as far as known, for listings and counts; empty if not. Gives no right. */
  readonly invoker: string;
  /** How it came: an event of our own store, `/job`, or `/run`, whose caller waits. */
  readonly trigger: 'storage' | 'job' | 'run';
  readonly byToken: boolean;
  readonly demand: Demand;
  readonly acceptedAt: number;
  /** The object that caused it, for a storage event. */
  readonly object?: { readonly bucket: string; readonly key: string; readonly modifiedAt?: number };
  /** It entered at this member of the federation, `<cluster id>/<service>`. */
  readonly openedBy?: string;
  /**
   * Another cluster delegated it the old way, by a call under an id of its own choice: the cluster that it says to be,
   * empty if it does not say. It proves nothing and gives no right.
   */
  readonly delegatedFrom?: string;
  /** It runs for another cluster, whose job it is. */
  readonly taken?: TakenJob;
}

/** An offer of another cluster that was taken. Offers are known by all of this (docs/peer-protocol.md#jobs). */
export interface TakenJob {
  /** Of the federation. */
  readonly uid: string;
  /** Who was asked, `<cluster id>/<service>`: one cluster may be several members. */
  readonly member: string;
  /** At the origin. */
  readonly job: JobKey;
  readonly epoch: number;
  /** SHA-256 of what was offered, in hexadecimal: under one epoch there is one. */
  readonly payload: string;
  /** Where its files are, at the store of the origin: what has begun needs nobody to go on. */
  readonly files?: TakenFiles;
}

/** Of one attempt; never changes. */
interface TakenFiles {
  /** Absent: the event is the input. */
  readonly input?: { readonly bucket: string; readonly key: string };
  /** All results go below the prefix; the list of them is the object `manifest`. */
  readonly staging: { readonly bucket: string; readonly prefix: string; readonly manifest: string };
}

/** Why and when a job came into a state. */
export interface Transition {
  readonly state: JobState;
  readonly at: number;
  /** One word for programs: `Accepted`, `NoRoom`, `Started`, `Completed`, `ScriptFailed`, `OutOfMemory`, … */
  readonly reason: string;
  /** A sentence for people. */
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

/** Why a job was offered where it was. */
export interface DecisionRecord {
  readonly at: number;
  /** Of the attempt that it was for; absent when it led to none elsewhere. */
  readonly epoch?: number;
  readonly policy: string;
  readonly chosen?: string;
  readonly candidates: readonly DecidedCandidate[];
}

interface DecidedCandidate {
  readonly member: string;
  readonly score?: number;
  readonly refusal?: string;
  /** How old the figures of its cluster were, in seconds. Absent: there were none, or it is this cluster. */
  readonly age?: number;
}

/**
 * Where a job is that another cluster was asked to take. It counts while its epoch is the one of the job, and the job is
 * `offering`, `delegated` or `committing`.
 */
export interface Placement {
  /** `<cluster id>/<service>`, or the URL of an endpoint. */
  readonly member: string;
  readonly epoch: number;
  /** When the member first was let run it, and when it last said something about it. */
  readonly permittedAt?: number;
  readonly heardAt?: number;
  /** The member's requests for leave to run it: each is answered once, whichever manager hears it. */
  readonly asked?: SeenRequests;
  /** SHA-256 of the list of its results, once it has ended well: these are committed, and nothing else. */
  readonly manifest?: string;
}

/** A signed request: when it was signed, by the clock of who signed it, and what tells it from others. */
export interface SeenRequest {
  readonly time: number;
  readonly nonce: string;
}

export interface SeenRequests {
  readonly last: readonly SeenRequest[];
  /** When the latest of those was signed that are not among them any more. */
  readonly forgotten?: number;
}

/** How a run for another cluster ended; kept until its origin has heard of it. */
export interface PendingResult {
  readonly outcome: 'succeeded' | 'failed' | 'cancelled';
  readonly reason: string;
  readonly message: string;
  readonly finishedAt: number;
  readonly manifest?: string;
}

/** What changes while a job lives. */
export interface JobProgress {
  readonly state: JobState;
  /** What is going on inside the state: `pulling image: 40 %`. */
  readonly message: string;
  /** Grows with every attempt; what is done outside carries it. */
  readonly epoch: number;
  /** When its script was started and when it ended. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode?: number;
  /** Somebody wants it to end. */
  readonly cancelRequested?: { readonly at: number; readonly reason: string };
  readonly placement?: Placement;
  readonly handIn?: PendingResult;
  readonly timeline: readonly Transition[];
  readonly attempts: readonly AttemptRecord[];
  readonly decisions: readonly DecisionRecord[];
}

export interface JobRecord extends NewJob, JobProgress {
  /**
   * Why the cluster does not let it start, whatever room there is; or, of one that runs, why it may not go on. Only some
   * clusters have a say in that: it is nothing that a record keeps.
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

/** Only what a new job has: a whole record passes for one, and so would its state. */
export const pickNewJob = (job: NewJob): NewJob => pick(job, NEW_JOB_FIELDS) as unknown as NewJob;

/** Only what may change: a whole record passes for a change, and so would what never does. */
export const pickProgress = (change: Partial<JobProgress>): Partial<JobProgress> => pick(change, PROGRESS_FIELDS);

function pick(value: object, fields: readonly string[]): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const field of fields) {
    if (Object.hasOwn(value, field)) picked[field] = (value as Record<string, unknown>)[field];
  }
  return picked;
}
