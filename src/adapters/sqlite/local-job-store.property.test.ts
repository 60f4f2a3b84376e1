import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import type { Cursor, Version } from '../../lib/version.ts';
import type { JobState, NewJob } from '../../model/job/index.ts';
import { sampleJob, sampleProgress } from '../../ports/conformance/sample-job.ts';
import { listAllPages } from '../../ports/index.ts';
import { Database } from './database.ts';
import { LocalJobStore } from './local-job-store.ts';

const RUNS = 5 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);
const SERVICES = ['cow', 'dog'];

interface Step {
  readonly verb: 'accept' | 'update' | 'remove' | 'removeService' | 'expire' | 'dropMarks' | 'restart';
  readonly job: NewJob;
  readonly state: JobState;
}

const anyJob = fc
  .record({
    service: fc.constantFrom(...SERVICES),
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    trigger: fc.constantFrom('storage', 'job'),
    acceptedAt: fc.integer({ min: 0, max: 5 }),
  })
  .map((known) => sampleJob('', known));

const step: fc.Arbitrary<Step> = fc.record({
  verb: fc.constantFrom(
    ...(['accept', 'accept', 'accept', 'accept', 'update', 'update', 'update', 'remove', 'remove', 'remove'] as const),
    ...(['removeService', 'expire', 'dropMarks', 'restart'] as const),
  ),
  job: anyJob,
  state: fc.constantFrom('accepted', 'queued', 'running', 'succeeded', 'failed'),
});

test('job store: lists, counts, events and changes agree after any sequence of accepted and rejected writes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 8 }), async (bursts) => {
      using world = new World();
      for (const burst of bursts) {
        await Promise.allSettled(burst.map((each) => world.take(each)));
        if (burst.some(({ verb }) => verb === 'restart')) world.restart();
        await world.check();
      }
    }),
    { numRuns: RUNS },
  );
});

/** A store, and a reader that has followed its changes from the beginning. */
class World {
  readonly #directory = makeTemporaryDirectory();
  readonly #followed = new Map<string, Version>();
  #database = this.#openDatabase();
  #store = this.#openStore();
  #cursor: Cursor | undefined;

  async take({ verb, job, state }: Step): Promise<void> {
    this.#cursor ??= (await this.#store.changes({ limit: 1 })).cursor;
    const known = await this.#store.get(job);
    const progress = sampleProgress(state, { finishedAt: job.acceptedAt });
    if (verb === 'accept') await this.#store.accept(job, progress, new Uint8Array([1]));
    else if (verb === 'update' && known) await this.#store.update(job, known.version, { state });
    else if (verb === 'remove') await this.#store.remove(job);
    else if (verb === 'removeService') await this.#store.removeService(job.serviceUid);
    else if (verb === 'expire') await this.#store.expire(job.acceptedAt, 2);
    else if (verb === 'dropMarks') await this.#store.dropTombstones(job.serviceUid, job.acceptedAt);
  }

  restart(): void {
    this.#database.close();
    this.#database = this.#openDatabase();
    this.#store = this.#openStore();
  }

  async check(): Promise<void> {
    const pages = SERVICES.map((service) =>
      listAllPages((cursor) => this.#store.list({ service, limit: 2, ...(cursor && { cursor }) })),
    );
    const all = (await Promise.all(pages)).flat(2);
    const there = Object.fromEntries(all.map((record) => [`${record.service}/${record.id}`, record.version]));
    await this.#follow();
    assert.deepEqual(Object.fromEntries(this.#followed), there);

    const tally = new Map<JobState, number>();
    for (const { state } of all) tally.set(state, (tally.get(state) ?? 0) + 1);
    assert.deepEqual(new Map(await this.#store.counts()), tally);

    const unfinished = [];
    for await (const record of this.#store.unfinished()) unfinished.push(record);
    assert.equal(unfinished.length, all.filter(({ state }) => !['succeeded', 'failed'].includes(state)).length);
    const events = this.#database.query<{ n: number }>('SELECT count(*) AS n FROM job_events').get()?.n;
    assert.equal(events, all.length);
    assert.deepEqual(this.#database.query('PRAGMA integrity_check').all().length, 1);
  }

  async #follow(): Promise<void> {
    while (this.#cursor) {
      const { items, cursor } = await this.#store.changes({ since: this.#cursor, limit: 2 });
      this.#cursor = cursor;
      for (const { key, record } of items) {
        if (record) this.#followed.set(`${key.service}/${key.id}`, record.version);
        else this.#followed.delete(`${key.service}/${key.id}`);
      }
      if (items.length === 0) return;
    }
  }

  #openDatabase(): Database {
    return new Database(join(this.#directory, 'test.db'));
  }

  #openStore(): LocalJobStore {
    return new LocalJobStore(this.#database, { now: () => 0, slice: 2 });
  }

  [Symbol.dispose](): void {
    this.#database.close();
    removeTemporaryDirectory(this.#directory);
  }
}
