import { createHash, randomUUID } from 'node:crypto';
import type { Service } from '../../../service/index.ts';
import { StoreError } from '../../errors.ts';
import { deepFreeze } from '../../freeze.ts';
import { newJobIn, progressIn } from '../../job-fields.ts';
import type { JobProgress, JobRecord, JobState, NewJob } from '../../job-record.ts';
import type { Version } from '../../version.ts';
import type { Job, Metadata, Stored } from '../api/kinds.ts';
import { objectName } from '../job-name.ts';
import { QUEUE } from '../kueue/names.ts';
import { type Shown, shownBy } from './job-status.ts';
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

export const newVersion = () => randomUUID() as Version;

/** Selects the records of one service, whatever its name is by now. */
export const ofService = (uid: string) => `${SERVICE_UID}=${digest(uid)}`;

export function toJob(
  job: NewJob,
  progress: JobProgress,
  event: { readonly bytes: number; readonly place: EventPlace },
  service: Service,
  options: TemplateOptions,
): Job {
  const { labels, annotations, spec } = templateOf(job, service, options);
  return {
    metadata: {
      name: objectName(job),
      namespace: service.namespace,
      labels: { ...labels, [RECORD]: 'job', [SERVICE_UID]: digest(job.serviceUid) },
      annotations: {
        ...annotations,
        [NEW_JOB]: JSON.stringify(newJobIn(job)),
        [PROGRESS]: JSON.stringify(progressIn(progress)),
        [VERSION]: newVersion(),
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
export function withProgress(object: Stored<Job>, change: Partial<JobProgress>): Stored<Job> {
  const progress = { ...(parse(object, PROGRESS) as JobProgress), ...progressIn(change) };
  return annotated(object, { [PROGRESS]: JSON.stringify(progress), [VERSION]: newVersion() });
}

/** That it was is kept; what it was and did is not. What Kubernetes has in it cannot be changed. */
export function asMark(object: Stored<Job>): Stored<Job> {
  const { service, id, serviceUid, object: cause, acceptedAt } = parse(object, NEW_JOB) as NewJob;
  const mark: Mark = { service, id, serviceUid, at: cause?.modifiedAt ?? acceptedAt };
  const { labels: { [QUEUE]: queue } = {}, annotations: _, ...metadata } = object.metadata;
  // Kueue lets nobody take a Job that it has let in out of its queue.
  const inQueue = queue === undefined ? {} : { [QUEUE]: queue };
  const labels = { ...inQueue, [RECORD]: 'mark', [SERVICE_UID]: digest(serviceUid) };
  const annotations = { [MARK]: JSON.stringify(mark), [VERSION]: newVersion() };
  return { ...object, metadata: { ...metadata, labels, annotations } };
}

/** Throws `damaged` for what is not a record of ours, though it says so. */
export function readJob(object: Stored<Job>): JobEntry {
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
export function eventOf(object: Stored<Job>): EventPlace {
  const inline = object.metadata.annotations?.[EVENT];
  if (inline !== undefined) return { inline: new Uint8Array(Buffer.from(inline, 'base64')) };
  return { shelved: parse(object, EVENT_SHELVED) as ShelvedEvent };
}

export const digestOf = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

const FINAL: ReadonlySet<JobState> = new Set(['succeeded', 'failed', 'cancelled']);

export const isFinal = (state: JobState) => FINAL.has(state);

/** One that never ran has no time at which its script ended, and ended when it came into its state. */
export function endedAt({ state, finishedAt, timeline, acceptedAt }: JobRecord): number | undefined {
  return isFinal(state) ? (finishedAt ?? timeline.at(-1)?.at ?? acceptedAt) : undefined;
}

function annotated(object: Stored<Job>, more: Metadata['annotations']): Stored<Job> {
  const annotations = { ...object.metadata.annotations, ...more };
  return { ...object, metadata: { ...object.metadata, annotations } };
}

function parse(object: Stored<Job>, key: string): object {
  try {
    const value: unknown = JSON.parse(annotation(object, key));
    if (typeof value === 'object' && value !== null) return value;
  } catch (cause) {
    throw cause instanceof StoreError ? cause : damaged(object, key, cause);
  }
  throw damaged(object, key);
}

function annotation(object: Stored<Job>, key: string): string {
  const value = object.metadata.annotations?.[key];
  if (value === undefined) throw damaged(object, key);
  return value;
}

function damaged({ metadata: { name, namespace } }: Stored<Job>, key: string, cause?: unknown): StoreError {
  const message = `the Job ${name} in namespace ${namespace} is no record of a job: its annotation ${key} cannot be read; if nobody mends it, delete the Job`;
  return new StoreError('damaged', message, { cause });
}

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 40);
