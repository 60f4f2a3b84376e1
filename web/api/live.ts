import { useSyncExternalStore } from 'react';
import { call } from './client.ts';
import { followEvents, type ServerEvent } from './events.ts';
import type { Operations } from './schema.ts';

export type Job = Operations['GET /system/jobs/{name}/{id}']['response'];

/** A job as events and lists have it: without its attempts, decisions and timeline. */
export type JobSummary = Omit<Job, 'attempts' | 'decisions' | 'timeline'>;

/** The state of a member of a federation, as its coordinator knows it. */
export interface MemberState {
  readonly service: string;
  /** `<cluster id>/<service>`. */
  readonly member: string;
  readonly state: 'ready' | 'pending' | 'unreachable' | 'conflict' | 'removing' | 'removed-by-owner' | 'removed';
  readonly reason?: string;
  readonly at: string;
}

/** What the page knows from `/system/events`; a new object for each change. */
export interface Live {
  readonly connected: boolean;
  readonly jobs: ReadonlyMap<string, JobSummary>;
  readonly members: ReadonlyMap<string, MemberState>;
  /** Grows when events were missed: lists must be loaded again. */
  readonly resyncs: number;
}

/** Ended jobs that are kept for the overview. More: more memory. Fewer: the overview forgets earlier. */
const MAX_ENDED = 2_000;

const EMPTY: Live = { connected: false, jobs: new Map(), members: new Map(), resyncs: 0 };

let live = EMPTY;
let pending: ServerEvent[] = [];
let frame = 0;
const listeners = new Set<() => void>();

export const jobKey = ({ service, id }: Pick<JobSummary, 'service' | 'id'>) => `${service}/${id}`;

export function useLive(): Live {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => live,
  );
}

/** Follows the events until aborted. Events are applied once per frame, however many arrive. */
export async function startLive(signal: AbortSignal): Promise<void> {
  // Nothing of an earlier session may be seen in this one.
  pending = [];
  publish(EMPTY);
  loadRecent(signal).catch(() => {
    // The views load by themselves and show their errors.
  });
  await followEvents({
    signal,
    onState: (connected) => publish({ ...live, connected }),
    onEvent(event) {
      if (signal.aborted) return;
      pending.push(event);
      if (frame === 0) frame = schedule(applyPending);
    },
  });
}

/** Hidden pages have no frames; a timer then keeps the queue short. */
const schedule = (task: () => void) => (document.hidden ? window.setTimeout(task, 500) : requestAnimationFrame(task));

function applyPending(): void {
  frame = 0;
  const events = pending;
  pending = [];
  publish(applyEvents(live, events));
}

/** Exported for its test. */
export function applyEvents(before: Live, events: readonly ServerEvent[]): Live {
  const jobs = new Map(before.jobs);
  const members = new Map(before.members);
  let { resyncs } = before;
  for (const { event, data } of events) {
    if (event === 'resync') resyncs++;
    else if (event === 'job') {
      const job = JSON.parse(data) as JobSummary;
      // Deleted first, so that the order of the map is the order of changes.
      jobs.delete(jobKey(job));
      jobs.set(jobKey(job), job);
    } else if (event === 'gone') jobs.delete(jobKey(JSON.parse(data) as JobSummary));
    else if (event === 'member') {
      const member = JSON.parse(data) as MemberState;
      const key = `${member.service} ${member.member}`;
      if (member.state === 'removed') members.delete(key);
      else members.set(key, member);
    }
  }
  forgetEnded(jobs);
  return { ...before, jobs, members, resyncs };
}

function forgetEnded(jobs: Map<string, JobSummary>): void {
  let excess = jobs.size - MAX_ENDED;
  if (excess <= 0) return;
  for (const [key, job] of jobs) {
    if (excess <= 0) return;
    if (!isEnded(job)) continue;
    jobs.delete(key);
    excess--;
  }
}

export const isEnded = ({ phase }: Pick<JobSummary, 'phase'>) => phase === 'Succeeded' || phase === 'Failed';

/** Fewer: the overview is emptier before the first event. More: the first answer is larger. */
const RECENT = '500';

/** The newest jobs, so that the overview is not empty before the first event. */
async function loadRecent(signal: AbortSignal): Promise<void> {
  const { data } = await call('GET /system/jobs', { query: { limit: RECENT }, signal });
  if (signal.aborted) return;
  const jobs = new Map<string, JobSummary>(data.jobs.toReversed().map((job) => [jobKey(job), job]));
  // Events that arrived meanwhile are newer.
  for (const [key, job] of live.jobs) jobs.set(key, job);
  publish({ ...live, jobs });
}

function publish(next: Live): void {
  live = next;
  for (const listener of listeners) listener();
}
