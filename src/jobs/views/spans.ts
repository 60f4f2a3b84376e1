import { createHash } from 'node:crypto';
import type { JobKey, JobRecord, JobState } from '../../model/job/index.ts';

/** One step of a job as an OpenTelemetry span. Times are milliseconds since 1970. */
export interface Span {
  /** 32 and 16 hexadecimal digits. */
  readonly trace: string;
  readonly id: string;
  readonly parent?: string;
  readonly name: string;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Why the step failed. */
  readonly problem?: string;
}

/** The name of the span for the time in a state. */
const STEPS: Readonly<Partial<Record<JobState, string>>> = {
  queued: 'wait',
  offering: 'offer',
  delegated: 'delegate',
  running: 'run',
  committing: 'commit',
};

/**
 * The trace of an ended job, computed from its record. The ids are derived from the job, so that the spans of a target
 * belong to the same trace, below the span of the job at the origin.
 */
export function toSpans(record: JobRecord): Span[] {
  const { taken, timeline, acceptedAt, exitCode } = record;
  const job = taken?.job ?? record;
  const last = timeline.at(-1);
  const whole: Span = {
    trace: traceId(job),
    id: taken ? digest(['taken', record.service, record.id], 16) : rootSpanId(job),
    ...(taken && { parent: rootSpanId(job) }),
    name: taken ? `attempt ${taken.epoch} of ${job.service}` : `job of ${job.service}`,
    start: acceptedAt,
    end: Math.max(acceptedAt, last?.at ?? acceptedAt),
    attributes: {
      'oscar.cluster': last?.place ?? '',
      'oscar.service': record.service,
      'oscar.job': job.id,
      ...(taken && { 'oscar.member': taken.member, 'oscar.epoch': taken.epoch }),
      ...(exitCode !== undefined && { 'oscar.exit_code': exitCode }),
    },
    ...(last && record.state !== 'succeeded' && { problem: `${last.reason}: ${last.message}` }),
  };
  return [whole, ...steps(record, whole)];
}

/** W3C `traceparent` of a job, for requests that belong to it. */
export function toTraceparent(job: JobKey): string {
  return `00-${traceId(job)}-${rootSpanId(job)}-01`;
}

function steps({ timeline, service, id }: JobRecord, { trace, id: parent, attributes }: Span): Span[] {
  return timeline.flatMap(({ state, at, place, reason, message }, index) => {
    const name = STEPS[state];
    const next = timeline[index + 1];
    if (!name || !next) return [];
    return {
      trace,
      id: digest(['step', service, id, index, at], 16),
      parent,
      name,
      start: at,
      end: Math.max(at, next.at),
      attributes: { ...attributes, 'oscar.cluster': place, 'oscar.reason': reason, 'oscar.message': message },
    };
  });
}

const traceId = ({ service, id }: JobKey) => digest(['job', service, id], 32);
const rootSpanId = ({ service, id }: JobKey) => digest(['root', service, id], 16);

const digest = (parts: readonly (string | number)[], digits: number) =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, digits);
