import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { copying, delegating, startDelegation } from './delegation.ts';
import { expectStatus, member } from './federation.ts';
import { Outside, service } from './jobs.ts';
import { ADMIN, startTestManager, type TestManager } from './manager.ts';

/** A request whose executed files are listed by tools/walk.ts. */
export interface Walk {
  readonly name: string;
  readonly description: string;
  /** Starts the managers, and creates what the request needs. */
  start(): Promise<WalkScene>;
}

export interface WalkScene extends AsyncDisposable {
  /** Resolves when the request is completely processed. The managers get no other requests meanwhile. */
  request(number: number): Promise<void>;
}

export const CREATE: Walk = {
  name: 'create',
  description: 'POST /system/services of a plain service with an input and an output',
  async start() {
    const manager = await startTestManager();
    return {
      async request(number) {
        const body = service(`plain-${number}`, copying());
        expectStatus(await manager.call('POST', '/system/services', { as: ADMIN, body }), 201);
      },
      [Symbol.asyncDispose]: () => manager[Symbol.asyncDispose](),
    };
  },
};

export const JOB: Walk = {
  name: 'job',
  description: 'POST /job of such a service, until the job has succeeded: its script is a process and makes one result',
  async start() {
    const manager = await startTestManager();
    const outside = new Outside(manager.url);
    const token = await outside.create(ADMIN, service('plain', copying()));
    return {
      async request() {
        await outside.submit(token, 'plain', 'input');
        await expectJobsSucceeded(manager);
      },
      [Symbol.asyncDispose]: () => manager[Symbol.asyncDispose](),
    };
  },
};

export const DELEGATED_JOB: Walk = {
  name: 'delegated job',
  description: 'the same at the origin of a federation that delegates it; the functions of origin and target together',
  async start() {
    const clusters = await startDelegation();
    const { origin, a, people } = clusters;
    await delegating(clusters, 'plain', [member(a, 'plain-there')], { script: copying() });
    return {
      async request() {
        await origin.outside.submit(people.alice, 'plain', 'input');
        await expectJobsSucceeded(origin.manager, a.manager);
      },
      [Symbol.asyncDispose]: () => clusters[Symbol.asyncDispose](),
    };
  },
};

const LOOK_EVERY_MS = 20;
const PATIENCE_MS = 120_000;

/**
 * The states of the jobs of a manager, once all its jobs have ended. Reads the database: a manager that is
 * asked would run functions that are not part of the request.
 */
async function jobsEnded(directory: string): Promise<string[]> {
  using database = new DatabaseSync(join(directory, 'manager.db'), { readOnly: true });
  const query = database.prepare('SELECT standing, state FROM jobs');
  for (const end = performance.now() + PATIENCE_MS; ; await pause(LOOK_EVERY_MS)) {
    const jobs = query.all();
    if (jobs.every(({ standing }) => standing !== 'unfinished')) return jobs.map(({ state }) => String(state));
    assert.ok(performance.now() < end, `jobs have not ended within ${PATIENCE_MS / 1000} s`);
  }
}

/** Resolves when the managers have no more jobs to do, the origin first: it keeps a job until the target has ended it. */
async function expectJobsSucceeded(...managers: readonly TestManager[]): Promise<void> {
  for (const { directory } of managers) {
    const states = await jobsEnded(directory);
    assert.ok(states.length > 0 && states.every((state) => state === 'succeeded'), states.join(', '));
  }
}
