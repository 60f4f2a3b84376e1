import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { Outside, service } from '../../test/support/jobs.ts';
import { type ManagerOptions, type ManagerProcess, startManagerProcess } from './manager-process.ts';
import type { BenchUser } from './user.ts';

/** A service definition, as far as it matters here. */
export type Definition = Record<string, unknown> & { readonly name: string };

/** A manager and one service in it. */
export interface JobManager extends AsyncDisposable {
  readonly manager: ManagerProcess;
  /** What its users have of it. */
  readonly outside: Outside;
  /** `Authorization` with the token of the service. */
  readonly token: string;
}

/** What `/system/jobs` says about the times of a job. */
export interface TimedJob {
  readonly id: string;
  readonly state: string;
  readonly accepted_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly timeline: readonly { readonly state: string; readonly at: string; readonly message: string }[];
}

/** A service of which ten jobs fit into two cores, as by default; it reads `<name>/in` and writes `<name>/out`. */
export function scriptService(name: string, script: string, more: Record<string, unknown> = {}): Definition {
  return { ...service(name, script, { cpu: '0.2', ...more }), name };
}

/** For one without buckets. */
export const NO_FILES = { input: [], output: [] };

/** How often it is looked whether all is done. More often, and the looks are part of what is measured. */
const LOOK_EVERY_MS = 10;

/** Creates the service, unless it is in the data directory that the manager begins with. */
export async function startJobManager(
  user: BenchUser,
  definition: Definition,
  { settings = {}, from }: Pick<ManagerOptions, 'settings' | 'from'> = {},
): Promise<JobManager> {
  const manager = await startManagerProcess({
    settings: { ...user.settings, ...settings },
    ...(from !== undefined && { from }),
  });
  const outside = new Outside(manager.url);
  const token = from === undefined ? outside.create(user.as, definition) : tokenOf(outside, user.as, definition.name);
  return { manager, outside, token: await token, [Symbol.asyncDispose]: () => manager[Symbol.asyncDispose]() };
}

async function tokenOf(outside: Outside, as: string, name: string): Promise<string> {
  const { json } = await outside.call('GET', `/system/services/${name}`, { as });
  return `Bearer ${(json() as { token: string }).token}`;
}

/** Resolves when no job of the service waits or runs. */
export async function idle({ outside }: JobManager, as: string, name: string, every = LOOK_EVERY_MS): Promise<void> {
  for (;;) {
    const { status, text, json } = await outside.call('GET', `/system/jobs/${name}?state=queued,running`, { as });
    assert.equal(status, 200, text);
    if ((json() as { jobs: TimedJob[] }).jobs.length === 0) return;
    await pause(every);
  }
}

/** All jobs of the service, oldest first. Throws unless they ended well: others are no figure. */
export async function endedWell(
  { outside }: Pick<JobManager, 'outside'>,
  as: string,
  name: string,
): Promise<TimedJob[]> {
  const jobs = (await outside.jobs(as, name)) as unknown as TimedJob[];
  for (const { state, id, timeline } of jobs) assert.equal(state, 'succeeded', `${id}: ${timeline.at(-1)?.message}`);
  return jobs.toSorted((a, b) => Date.parse(a.accepted_at) - Date.parse(b.accepted_at));
}

/** When its turn came. */
export const turnOf = ({ timeline }: TimedJob) => timeOf(timeline.find(({ state }) => state === 'running')?.at);

export function timeOf(time: string | undefined): number {
  const ms = Date.parse(time ?? '');
  if (Number.isNaN(ms)) throw new Error('a job that ended well lacks a time');
  return ms;
}
