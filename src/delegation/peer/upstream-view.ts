import { fields, isObject, optional, text, wholeNumber } from '../../base/fields.ts';
import type { Free, Snapshot } from '../policy/index.ts';

/** What a manager written in Go shows of its cluster and its jobs, as far as it counts here. */

export type UpstreamPhase = 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Suspended' | 'Unknown';

export interface UpstreamJob {
  readonly phase: UpstreamPhase;
  /** Milliseconds since 1970. */
  readonly startedAt?: number;
  readonly finishedAt?: number;
}

const PHASES: readonly UpstreamPhase[] = ['Pending', 'Running', 'Succeeded', 'Failed', 'Suspended', 'Unknown'];

/** A page of `GET /system/logs/<service>` (contract §1.15). Undefined for what is none. */
export function readJobs(
  raw: unknown,
): { readonly jobs: ReadonlyMap<string, UpstreamJob>; readonly next?: string } | undefined {
  if (!isObject(raw) || !isObject(raw['jobs'])) return undefined;
  const jobs = new Map(Object.entries(raw['jobs']).map(([name, job]) => [name, jobIn(job)]));
  const next = raw['next_page'];
  return { jobs, ...(typeof next === 'string' && next !== '' && { next }) };
}

function jobIn(raw: unknown): UpstreamJob {
  const { status, start_time, finish_time } = isObject(raw) ? raw : {};
  const startedAt = timeIn(start_time);
  const finishedAt = timeIn(finish_time);
  return {
    phase: PHASES.find((phase) => phase === status) ?? 'Unknown',
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
  };
}

function timeIn(raw: unknown): number | undefined {
  const time = typeof raw === 'string' ? Date.parse(raw) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** How it goes with the jobs of a service: what waits, and the mean of what has ended, in seconds. */
export function figuresOf(jobs: Iterable<UpstreamJob>): Pick<Snapshot, 'pending' | 'meanDuration'> {
  const all = [...jobs];
  const pending = all.filter(({ phase }) => phase === 'Pending' || phase === 'Suspended').length;
  const seconds = all.flatMap(({ startedAt, finishedAt }) =>
    startedAt === undefined || finishedAt === undefined ? [] : [Math.max(0, finishedAt - startedAt) / 1000],
  );
  if (seconds.length === 0) return { pending };
  return { pending, meanDuration: seconds.reduce((sum, each) => sum + each, 0) / seconds.length };
}

interface Amounts {
  readonly capacity_cores?: number;
  readonly request_cores?: number;
  readonly capacity_bytes?: number;
  readonly request_bytes?: number;
}

// What is zero is left out there.
const readAmounts = fields<Amounts>({
  capacity_cores: optional(wholeNumber),
  request_cores: optional(wholeNumber),
  capacity_bytes: optional(wholeNumber),
  request_bytes: optional(wholeNumber),
});

const readNode = fields({ status: text('a status', /^\w*$/), gpu: wholeNumber });

/**
 * `GET /system/status` (contract §1.4). Undefined for what is none. What is called cores are millicores; of devices it does
 * not say which are in use.
 */
export function readUpstreamStatus(raw: unknown): Snapshot | undefined {
  const cluster = isObject(raw) && isObject(raw['cluster']) ? raw['cluster'] : undefined;
  // Null when it knows of none.
  const listed = cluster?.['nodes'] ?? [];
  if (!cluster || !Array.isArray(listed)) return undefined;
  const nodes = listed.flatMap((each) => freeOn(each) ?? []);
  return { nodes, nodeCount: listed.length, freeCpu: nodes.reduce((sum, { cpu }) => sum + cpu, 0), age: 0 };
}

/** Undefined for a node that takes no work. */
function freeOn(raw: unknown): Free | undefined {
  const node = readNode(raw);
  if ('problems' in node || node.value.status !== 'Ready' || !isObject(raw)) return undefined;
  const [cpu, memory] = [readAmounts(raw['cpu']), readAmounts(raw['memory'])];
  if ('problems' in cpu || 'problems' in memory) return undefined;
  const left = (capacity = 0, requested = 0) => Math.max(0, capacity - requested);
  return {
    cpu: left(cpu.value.capacity_cores, cpu.value.request_cores),
    memory: left(memory.value.capacity_bytes, memory.value.request_bytes),
    gpu: node.value.gpu,
  };
}
