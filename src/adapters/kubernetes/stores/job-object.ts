import { createHash, randomUUID } from 'node:crypto';
import { deepFreeze } from '../../../lib/json.ts';
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
import { QUEUE_NAME_LABEL } from '../kueue/index.ts';
import { jobObjectName } from '../objects/labels.ts';
import { buildJobTemplate, type TemplateOptions } from './job-template.ts';

/** Label: the Job is a job record of this manager (`job`), or the tombstone of one (`mark`). */
export const RECORD = 'oscar.grycap/record';

/** Label: a digest of the service's uid, since a uid may be any text. */
const SERVICE_UID = 'oscar.grycap/service-uid';

/** Annotations: the record as JSON, divided into the part that never changes and the part that does. */
const NEW_JOB = 'oscar.grycap/job';
const PROGRESS = 'oscar.grycap/progress';

/**
 * Annotation: the version of the record. The resourceVersion of the Job does not serve, because it also changes with the
 * status, which only shows the record.
 */
const VERSION = 'oscar.grycap/version';

/** Annotations: the event in base64, its size, or the blob that contains it. */
const EVENT = 'oscar.grycap/event';
const EVENT_BYTES = 'oscar.grycap/event-bytes';
const EVENT_BLOB = 'oscar.grycap/event-shelved';

/** Annotation: the tombstone of a removed job, as JSON. */
const TOMBSTONE = 'oscar.grycap/mark';

export type EventLocation = { readonly inline: Uint8Array } | { readonly blob: EventBlob };

/** A blob with an event that is too large for an annotation. */
export interface EventBlob {
  readonly key: string;
  readonly sha256: string;
}

interface JobTombstone {
  readonly service: string;
  readonly id: string;
  readonly serviceUid: string;
  readonly at: number;
}

/** What the manager keeps of a Job in memory: neither its event nor its pod template. */
export interface JobEntry {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly service: string;
  readonly id: string;
  readonly serviceUid: string;
  readonly version: Version;
  /** When the file that caused the job was modified; for other jobs, when the job was accepted. */
  readonly causedAt: number;
  /** Absent for a tombstone. */
  readonly record?: JobRecord;
  readonly eventBlob?: EventBlob;
  /** What the status of the Job shows. */
  readonly shown: ShownState;
  /** Kueue has not admitted the Job yet, or has evicted it. */
  readonly suspended: boolean;
  /** The LocalQueue in which it waits for admission, or has waited. */
  readonly queue?: string;
}

export const newJobVersion = () => randomUUID() as Version;

/** Label selector for the records of the service with this uid. */
export const serviceSelector = (uid: string) => `${SERVICE_UID}=${digest(uid)}`;

export function toJob(
  job: NewJob,
  progress: JobProgress,
  event: { readonly bytes: number; readonly location: EventLocation },
  service: Service,
  options: TemplateOptions,
): KubeJob {
  const { labels, annotations, spec } = buildJobTemplate(job, service, options);
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
        ...('inline' in event.location
          ? { [EVENT]: Buffer.from(event.location.inline).toString('base64') }
          : { [EVENT_BLOB]: JSON.stringify(event.location.blob) }),
      },
    },
    spec,
  };
}

/** Applies a change of the progress. Keys that the change does not name stay; keys that it sets to undefined are removed. */
export function withJobProgress(object: Stored<KubeJob>, change: Partial<JobProgress>): Stored<KubeJob> {
  const progress = { ...(parse(object, PROGRESS) as JobProgress), ...pickProgress(change) };
  return annotated(object, { [PROGRESS]: JSON.stringify(progress), [VERSION]: newJobVersion() });
}

/** Turns the Job of a removed job into its tombstone, which only says that the job existed. The spec of a Job cannot be changed. */
export function toTombstone(object: Stored<KubeJob>): Stored<KubeJob> {
  const { service, id, serviceUid, object: cause, acceptedAt } = parse(object, NEW_JOB) as NewJob;
  const tombstone: JobTombstone = { service, id, serviceUid, at: cause?.modifiedAt ?? acceptedAt };
  const { labels: { [QUEUE_NAME_LABEL]: queue } = {}, annotations: _, ...metadata } = object.metadata;
  // Kueue rejects removing the queue label from an admitted Job.
  const inQueue = queue === undefined ? {} : { [QUEUE_NAME_LABEL]: queue };
  const labels = { ...inQueue, [RECORD]: 'mark', [SERVICE_UID]: digest(serviceUid) };
  const annotations = { [TOMBSTONE]: JSON.stringify(tombstone), [VERSION]: newJobVersion() };
  return { ...object, metadata: { ...metadata, labels, annotations } };
}

/** Throws `damaged` for a Job that has the label of a record and does not contain one. */
export function readJob(object: Stored<KubeJob>): JobEntry {
  const { namespace = '', name, uid, resourceVersion, labels } = object.metadata;
  const version = annotation(object, VERSION) as Version;
  const shown = readShownState(object.status);
  const suspended = object.spec.suspend === true;
  const queue = labels?.[QUEUE_NAME_LABEL];
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
    const { service, id, serviceUid, at } = parse(object, TOMBSTONE) as JobTombstone;
    return { ...known, service, id, serviceUid, causedAt: at };
  }
  const job = parse(object, NEW_JOB) as NewJob;
  const progress = parse(object, PROGRESS) as JobProgress;
  const eventBytes = Number(annotation(object, EVENT_BYTES));
  const record: JobRecord = deepFreeze({ ...job, ...progress, eventBytes, version });
  const { service, id, serviceUid, acceptedAt } = record;
  const causedAt = record.object?.modifiedAt ?? acceptedAt;
  return {
    ...known,
    service,
    id,
    serviceUid,
    causedAt,
    record,
    ...(object.metadata.annotations?.[EVENT_BLOB] !== undefined && {
      eventBlob: parse(object, EVENT_BLOB) as EventBlob,
    }),
  };
}

/** Finds the event of a complete Job. */
export function findEvent(object: Stored<KubeJob>): EventLocation {
  const inline = object.metadata.annotations?.[EVENT];
  if (inline !== undefined) return { inline: new Uint8Array(Buffer.from(inline, 'base64')) };
  return { blob: parse(object, EVENT_BLOB) as EventBlob };
}

export const eventDigest = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

const FINAL: ReadonlySet<JobState> = new Set(['succeeded', 'failed', 'cancelled']);

export const isFinalJob = (state: JobState) => FINAL.has(state);

/** When the job ended. A job that never ran has no `finishedAt`; it ended when it entered its final state. */
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
  const message = `the Job ${name} in namespace ${namespace} is not a valid job record: its annotation ${key} cannot be read; repair it or delete the Job`;
  return new StoreError('damaged', message, { cause });
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40);

/** What the status of a Job shows, in the words of `kubectl get jobs`; `nothing` before the first status is written. */
type ShownState = 'nothing' | 'Suspended' | 'Running' | 'Complete' | 'Failed';

const SHOWN_STATES: Readonly<Record<JobState, Exclude<ShownState, 'nothing'>>> = {
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
 * What the status should show of a record. A Job that Kueue suspends and that does not run in this cluster is shown as
 * suspended, even if it is delegated: only then does Kueue give its quota to others.
 */
export function stateToShow({ state }: Pick<JobRecord, 'state'>, suspended = false): Exclude<ShownState, 'nothing'> {
  const shown = SHOWN_STATES[state];
  return suspended && shown === 'Running' && state !== 'running' ? 'Suspended' : shown;
}

/** Kubernetes requires these conditions before the final one (`managedBy`, KEP-4368). */
const PRELIMINARY_CONDITIONS = { Complete: 'SuccessCriteriaMet', Failed: 'FailureTarget' } as const;

export function readShownState({ active = 0, conditions = [] }: JobStatus = {}): ShownState {
  const holds = (type: string) => conditions.some((each) => each.type === type && each.status === 'True');
  if (holds('Complete')) return 'Complete';
  if (holds('Failed')) return 'Failed';
  if (holds('Suspended')) return 'Suspended';
  return active > 0 ? 'Running' : 'nothing';
}

/**
 * The status that shows a record. Kubernetes validates it: a finished Job has a start time and no pods, a start time never
 * changes, and a final condition never disappears.
 */
export function toJobStatus(
  record: JobRecord,
  before: JobStatus = {},
  suspended = false,
): JobStatus & Record<string, unknown> {
  const shown = stateToShow(record, suspended);
  const { acceptedAt, startedAt = acceptedAt, finishedAt, timeline } = record;
  const last = timeline.at(-1);
  const ended = Math.max(finishedAt ?? last?.at ?? startedAt, startedAt);
  const text = { reason: last?.reason ?? record.state, message: last?.message ?? record.message };
  const startTime = before.startTime ?? instant(startedAt);
  const was = before.conditions ?? [];
  const paused = was.some(({ type }) => type === 'Suspended');
  const resumed = paused ? [condition('Suspended', 'False', startedAt, { reason: 'Started', message: '' })] : [];
  switch (shown) {
    case 'Suspended':
      return {
        ...NO_PODS,
        // While Kueue suspends the Job, the start time must be removed: Kueue does not admit a Job that seems to have started.
        ...(before.startTime !== undefined && !suspended && { startTime }),
        conditions: [condition('Suspended', 'True', last?.at ?? acceptedAt, text)],
      };
    case 'Running':
      return { ...NO_PODS, active: 1, ready: record.state === 'running' ? 1 : 0, startTime, conditions: resumed };
    case 'Complete':
    case 'Failed': {
      const ends = [PRELIMINARY_CONDITIONS[shown], shown].map((type) => condition(type, 'True', ended, text));
      // The clock was changed if the end is before the start. The start time cannot change, so the end is moved.
      const completionTime = instant(Math.max(ended, Date.parse(startTime)));
      const sum = shown === 'Complete' ? { succeeded: 1, completionTime } : { failed: 1 };
      return { ...NO_PODS, ...sum, startTime, conditions: [...resumed, ...ends] };
    }
  }
}

/** There are never pods for Kubernetes to count. Once the status has these fields, it must keep them. */
const NO_PODS = { terminating: 0, uncountedTerminatedPods: {} };

function condition(
  type: string,
  status: JobCondition['status'],
  at: number,
  text: { readonly reason: string; readonly message: string },
): JobCondition & { readonly lastProbeTime: string } {
  return { type, status, ...text, lastTransitionTime: instant(at), lastProbeTime: instant(at) };
}

/** In whole seconds, as the API requires. */
const instant = (milliseconds: number) => `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
