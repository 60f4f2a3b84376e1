import { createHash, randomUUID } from 'node:crypto';
import { deepFreeze } from '../../../lib/freeze.ts';
import type { Version } from '../../../lib/version.ts';
import {
  type JobProgress,
  type JobRecord,
  type JobState,
  type NewJob,
  pickNewJob,
  pickProgress,
} from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { JobCondition, JobStatus, KubeJob, Metadata, Stored } from '../client/kinds.ts';
import { QUEUE } from '../kueue/index.ts';
import { jobObjectName } from '../objects/labels.ts';
import { type TemplateOptions, templateOf } from './job-template.ts';

/** Says that a Job is a record of ours, `job`, or what is left of one, `mark`. */
export const RECORD = 'oscar.grycap/record';

/** Of its service, as a digest: any text can be a uid. */
const SERVICE_UID = 'oscar.grycap/service-uid';

/** The record, in JSON: what never changes and what does. */
const NEW_JOB = 'oscar.grycap/job';
const PROGRESS = 'oscar.grycap/progress';

/**
 * Names the state of the record. The version of the object will not do: that also changes with the status, in which
 * the record is only shown.
 */
const VERSION = 'oscar.grycap/version';

/** In base64, since an event is bytes; or where it is. */
const EVENT = 'oscar.grycap/event';
const EVENT_BYTES = 'oscar.grycap/event-bytes';
const EVENT_SHELVED = 'oscar.grycap/event-shelved';

/** What is left of a job that was removed, in JSON. */
const MARK = 'oscar.grycap/mark';

export type EventPlace = { readonly inline: Uint8Array } | { readonly shelved: ShelvedEvent };

/** An event that is too large for the object. */
export interface ShelvedEvent {
  readonly key: string;
  readonly sha256: string;
}

interface Mark {
  readonly service: string;
  readonly id: string;
  readonly serviceUid: string;
  readonly at: number;
}

/** What the manager keeps of a Job: neither its event nor what Kubernetes has to know. */
export interface JobEntry {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly service: string;
  readonly id: string;
  readonly serviceUid: string;
  readonly version: Version;
  /** When the object that caused it was modified, or it was accepted. */
  readonly markedAt: number;
  /** Absent for one that is hidden. */
  readonly record?: JobRecord;
  readonly shelved?: ShelvedEvent;
  /** What its status says. */
  readonly shown: Shown;
  /** Kueue has not let it in yet, or has taken that back. */
  readonly suspended: boolean;
  /** In which it waits for that, or has waited. */
  readonly queue?: string;
}

export const newJobVersion = () => randomUUID() as Version;

/** Selects the records of one service, whatever its name is by now. */
export const ofService = (uid: string) => `${SERVICE_UID}=${digest(uid)}`;

export function toJob(
  job: NewJob,
  progress: JobProgress,
  event: { readonly bytes: number; readonly place: EventPlace },
  service: Service,
  options: TemplateOptions,
): KubeJob {
  const { labels, annotations, spec } = templateOf(job, service, options);
  return {
    metadata: {
      name: jobObjectName(job),
      namespace: service.namespace,
      labels: { ...labels, [RECORD]: 'job', [SERVICE_UID]: digest(job.serviceUid) },
      annotations: {
        ...annotations,
        [NEW_JOB]: JSON.stringify(pickNewJob(job)),
        [PROGRESS]: JSON.stringify(pickProgress(progress)),
        [VERSION]: newJobVersion(),
        [EVENT_BYTES]: String(event.bytes),
        ...('inline' in event.place
          ? { [EVENT]: Buffer.from(event.place.inline).toString('base64') }
          : { [EVENT_SHELVED]: JSON.stringify(event.place.shelved) }),
      },
    },
    spec,
  };
}

/** The same with another progress: what the change does not name stays, what it names as undefined goes. */
export function withJobProgress(object: Stored<KubeJob>, change: Partial<JobProgress>): Stored<KubeJob> {
  const progress = { ...(parse(object, PROGRESS) as JobProgress), ...pickProgress(change) };
  return annotated(object, { [PROGRESS]: JSON.stringify(progress), [VERSION]: newJobVersion() });
}

/** That it was is kept; what it was and did is not. What Kubernetes has in it cannot be changed. */
export function asMark(object: Stored<KubeJob>): Stored<KubeJob> {
  const { service, id, serviceUid, object: cause, acceptedAt } = parse(object, NEW_JOB) as NewJob;
  const mark: Mark = { service, id, serviceUid, at: cause?.modifiedAt ?? acceptedAt };
  const { labels: { [QUEUE]: queue } = {}, annotations: _, ...metadata } = object.metadata;
  // Kueue lets nobody take a Job that it has let in out of its queue.
  const inQueue = queue === undefined ? {} : { [QUEUE]: queue };
  const labels = { ...inQueue, [RECORD]: 'mark', [SERVICE_UID]: digest(serviceUid) };
  const annotations = { [MARK]: JSON.stringify(mark), [VERSION]: newJobVersion() };
  return { ...object, metadata: { ...metadata, labels, annotations } };
}

/** Throws `damaged` for what is not a record of ours, though it says so. */
export function readJob(object: Stored<KubeJob>): JobEntry {
  const { namespace = '', name, uid, resourceVersion, labels } = object.metadata;
  const version = annotation(object, VERSION) as Version;
  const shown = shownBy(object.status);
  const suspended = object.spec.suspend === true;
  const queue = labels?.[QUEUE];
  const known = {
    namespace,
    name,
    uid,
    resourceVersion,
    version,
    shown,
    suspended,
    ...(queue !== undefined && { queue }),
  };
  if (labels?.[RECORD] === 'mark') {
    const { service, id, serviceUid, at } = parse(object, MARK) as Mark;
    return { ...known, service, id, serviceUid, markedAt: at };
  }
  const job = parse(object, NEW_JOB) as NewJob;
  const progress = parse(object, PROGRESS) as JobProgress;
  const eventBytes = Number(annotation(object, EVENT_BYTES));
  const record: JobRecord = deepFreeze({ ...job, ...progress, eventBytes, version });
  const { service, id, serviceUid, acceptedAt } = record;
  const markedAt = record.object?.modifiedAt ?? acceptedAt;
  return {
    ...known,
    service,
    id,
    serviceUid,
    markedAt,
    record,
    ...(object.metadata.annotations?.[EVENT_SHELVED] !== undefined && {
      shelved: parse(object, EVENT_SHELVED) as ShelvedEvent,
    }),
  };
}

/** Where the event is; of an object that has not been cut down. */
export function eventInJob(object: Stored<KubeJob>): EventPlace {
  const inline = object.metadata.annotations?.[EVENT];
  if (inline !== undefined) return { inline: new Uint8Array(Buffer.from(inline, 'base64')) };
  return { shelved: parse(object, EVENT_SHELVED) as ShelvedEvent };
}

export const eventDigest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

const FINAL: ReadonlySet<JobState> = new Set(['succeeded', 'failed', 'cancelled']);

export const isFinalJob = (state: JobState) => FINAL.has(state);

/** One that never ran has no time at which its script ended, and ended when it came into its state. */
export function endedAt({ state, finishedAt, timeline, acceptedAt }: JobRecord): number | undefined {
  return isFinalJob(state) ? (finishedAt ?? timeline.at(-1)?.at ?? acceptedAt) : undefined;
}

function annotated(object: Stored<KubeJob>, more: Metadata['annotations']): Stored<KubeJob> {
  const annotations = { ...object.metadata.annotations, ...more };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

function parse(object: Stored<KubeJob>, key: string): object {
  try {
    const value: unknown = JSON.parse(annotation(object, key));
    if (typeof value === 'object' && value !== null) return value;
  } catch (cause) {
    throw cause instanceof StoreError ? cause : damaged(object, key, cause);
  }
  throw damaged(object, key);
}

function annotation(object: Stored<KubeJob>, key: string): string {
  const value = object.metadata.annotations?.[key];
  if (value === undefined) throw damaged(object, key);
  return value;
}

function damaged({ metadata: { name, namespace } }: Stored<KubeJob>, key: string, cause?: unknown): StoreError {
  const message = `the Job ${name} in namespace ${namespace} is no record of a job: its annotation ${key} cannot be read; if nobody mends it, delete the Job`;
  return new StoreError('damaged', message, { cause });
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40);

/** What the status of a Job says, in the words of `kubectl get jobs`; `nothing` of one that nobody has written yet. */
type Shown = 'nothing' | 'Suspended' | 'Running' | 'Complete' | 'Failed';

const TO_SHOW: Readonly<Record<JobState, Exclude<Shown, 'nothing'>>> = {
  accepted: 'Suspended',
  queued: 'Suspended',
  offering: 'Suspended',
  delegated: 'Running',
  running: 'Running',
  committing: 'Running',
  succeeded: 'Complete',
  failed: 'Failed',
  cancelled: 'Failed',
};

/**
 * What is to be shown of a record. One that Kueue has not let in, and that does not run here, is suspended wherever it is:
 * only then Kueue gives its quota to others.
 */
export function toShow({ state }: Pick<JobRecord, 'state'>, suspended = false): Exclude<Shown, 'nothing'> {
  const shown = TO_SHOW[state];
  return suspended && shown === 'Running' && state !== 'running' ? 'Suspended' : shown;
}

/** Before the end of a Job, Kubernetes wants to be told that it is about to end (`managedBy`, KEP-4368). */
const FOREBODING = { Complete: 'SuccessCriteriaMet', Failed: 'FailureTarget' } as const;

export function shownBy({ active = 0, conditions = [] }: JobStatus = {}): Shown {
  const holds = (type: string) => conditions.some((each) => each.type === type && each.status === 'True');
  if (holds('Complete')) return 'Complete';
  if (holds('Failed')) return 'Failed';
  if (holds('Suspended')) return 'Suspended';
  return active > 0 ? 'Running' : 'nothing';
}

/**
 * The status that shows a record. Kubernetes is strict with those who write one: what has ended had a beginning and has no
 * pods, a beginning never moves, and a condition that says the end never goes.
 */
export function statusOf(
  record: JobRecord,
  before: JobStatus = {},
  suspended = false,
): JobStatus & Record<string, unknown> {
  const shown = toShow(record, suspended);
  const { acceptedAt, startedAt = acceptedAt, finishedAt, timeline } = record;
  const last = timeline.at(-1);
  const ended = Math.max(finishedAt ?? last?.at ?? startedAt, startedAt);
  const said = { reason: last?.reason ?? record.state, message: last?.message ?? record.message };
  const startTime = before.startTime ?? instant(startedAt);
  const was = before.conditions ?? [];
  const paused = was.some(({ type }) => type === 'Suspended');
  const resumed = paused ? [condition('Suspended', 'False', startedAt, { reason: 'Started', message: '' })] : [];
  switch (shown) {
    case 'Suspended':
      return {
        ...KEPT,
        // Of one that is suspended it may be taken back, and must be: Kueue cannot let in what seems to have begun.
        ...(before.startTime !== undefined && !suspended && { startTime }),
        conditions: [condition('Suspended', 'True', last?.at ?? acceptedAt, said)],
      };
    case 'Running':
      return { ...KEPT, active: 1, ready: record.state === 'running' ? 1 : 0, startTime, conditions: resumed };
    case 'Complete':
    case 'Failed': {
      const ends = [FOREBODING[shown], shown].map((type) => condition(type, 'True', ended, said));
      // What has begun later than it has ended is a clock that was set: the beginning stays, so the end has to give.
      const completionTime = instant(Math.max(ended, Date.parse(startTime)));
      const sum = shown === 'Complete' ? { succeeded: 1, completionTime } : { failed: 1 };
      return { ...KEPT, ...sum, startTime, conditions: [...resumed, ...ends] };
    }
  }
}

/** Pods that Kubernetes has yet to count; there are none, and once that is said it must stay said. */
const KEPT = { terminating: 0, uncountedTerminatedPods: {} };

function condition(
  type: string,
  status: JobCondition['status'],
  at: number,
  said: { readonly reason: string; readonly message: string },
): JobCondition & { readonly lastProbeTime: string } {
  return { type, status, ...said, lastTransitionTime: instant(at), lastProbeTime: instant(at) };
}

/** In whole seconds, as the API has it. */
const instant = (milliseconds: number) => `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
