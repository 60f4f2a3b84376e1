import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Version } from '../../lib/version.ts';
import { JOB_STATES, type JobProgress, type JobRecord, type Placement } from '../../model/job/index.ts';
import { describeJobChanges } from './job-store-changes.conformance.ts';
import { describeJobLists } from './job-store-lists.conformance.ts';
import { describeJobRemoval } from './job-store-removal.conformance.ts';
import { accepted, assertListed, EVENT, type JobStoreUnderTest, type StartJobs } from './job-store-under-test.ts';
import { onlyOneWon } from './only-one-won.ts';
import { EPOCH, sampleJob, sampleProgress, storageJob } from './sample-job.ts';

/** Concurrent calls per race test: enough that they overlap at every step. */
const CROWD = 50;

/** The guarantees of every {@link JobStore}. */
export function describeJobStore(name: string, make: () => Promise<JobStoreUnderTest>): void {
  const start: StartJobs = async (t) => {
    const made = await make();
    t.after(() => made.close());
    return made.store;
  };
  describe(`${name} as a JobStore`, () => {
    describeAcceptance(start);
    describeEvents(start);
    describeUpdates(start);
    describeJobLists(start);
    describeJobRemoval(start);
    describeJobChanges(start);
  });
}

function describeAcceptance(start: StartJobs): void {
  test('accept: the job is read back unchanged', async (t) => {
    const store = await start(t);
    const job = storageJob('a', {
      principal: 'bob',
      invoker: '',
      byToken: true,
      demand: { cpu: 1, memory: 2, gpu: 3 },
    });
    const { outcome, record } = await store.accept(job, sampleProgress(), EVENT);
    assert.equal(outcome, 'created');
    assert.ok(record);
    const { version } = record;
    assert.deepEqual({ ...record }, { ...job, ...sampleProgress(), eventBytes: EVENT.byteLength, version });
    assert.deepEqual(await store.get(job), record);
  });

  test('getFresh: returns the last write, and undefined for a removed job', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    const next = await store.update(made, made.version, { state: 'failed' });
    assert.deepEqual(await store.getFresh(made), next);
    await store.remove(made);
    assert.equal(await store.getFresh(made), undefined);
  });

  test('get: a job that was never accepted is undefined', async (t) => {
    const store = await start(t);
    assert.equal(await store.get(sampleJob('a')), undefined);
    assert.equal(await store.event(sampleJob('a')), undefined);
  });

  for (const state of JOB_STATES) {
    test(`accept: a job may begin in state ${state}`, async (t) => {
      const store = await start(t);
      await accepted(store, sampleJob('a'), sampleProgress(state));
      assert.equal((await store.get(sampleJob('a')))?.state, state);
    });
  }

  test('accept: a known key returns the existing record and changes nothing', async (t) => {
    const store = await start(t);
    const first = await accepted(store, sampleJob('a'));
    const known = await store.update(first, first.version, { state: 'running' });
    const other = sampleJob('a', { invoker: 'mallory', serviceUid: 'other', acceptedAt: EPOCH + 1 });
    const again = await store.accept(other, sampleProgress('failed'), new Uint8Array(3));
    assert.deepEqual(again, { outcome: 'exists', record: known });
    assert.deepEqual(await store.get(first), known);
    assert.deepEqual(await store.event(first), EVENT);
    await assertListed(store, ['cow-a']);
  });

  test('accept: of concurrent calls with one key, one creates the job', async (t) => {
    const store = await start(t);
    const answers = await Promise.all(
      Array.from({ length: CROWD }, (_, n) =>
        store.accept(sampleJob('a', { invoker: `user-${n}` }), sampleProgress(), new Uint8Array([n])),
      ),
    );
    const made = answers.findIndex(({ outcome }) => outcome === 'created');
    assert.equal(answers.filter(({ outcome }) => outcome === 'created').length, 1);
    const record = await store.get(sampleJob('a'));
    assert.equal(record?.invoker, `user-${made}`);
    for (const answer of answers) assert.deepEqual(answer.record, record);
    assert.deepEqual(await store.event(sampleJob('a')), new Uint8Array([made]));
  });

  test('accept: concurrent calls with different keys each create a job', async (t) => {
    const store = await start(t);
    const jobs = Array.from({ length: CROWD }, (_, n) => sampleJob(`a${n}`));
    const answers = await Promise.all(jobs.map((job) => store.accept(job, sampleProgress(), EVENT)));
    assert.ok(answers.every(({ outcome }) => outcome === 'created'));
    assert.equal(new Set(answers.map(({ record }) => record?.version)).size, CROWD);
    for (const job of jobs) assert.equal((await store.get(job))?.id, job.id);
  });

  test('accept: the same id in two services is two jobs', async (t) => {
    const store = await start(t);
    const cow = await accepted(store, sampleJob('', { id: 'same' }));
    const dog = await accepted(store, sampleJob('', { id: 'same', service: 'dog' }));
    await store.update(cow, cow.version, { state: 'running' });
    assert.deepEqual(await store.get(dog), dog);
    await assertListed(store, ['same'], { service: 'dog' });
  });

  test('records are deeply frozen, and the arguments of the caller are not', async (t) => {
    const store = await start(t);
    const job = storageJob('a');
    const made = await accepted(store, job);
    const read = await store.get(job);
    const updated = await store.update(made, made.version, { message: 'pulling' });
    for (const record of [made, read, updated]) {
      assert.ok(record);
      const parts = [record, record.demand, record.object, record.timeline, record.timeline[0]];
      assert.ok(parts.every(Object.isFrozen));
    }
    assert.equal(Object.isFrozen(job.demand), false);
  });
}

function describeEvents(start: StartJobs): void {
  const everyByte = Uint8Array.from({ length: 256 }, (_, n) => n);
  const cases: Record<string, Uint8Array> = {
    'an empty event': new Uint8Array(),
    'an event of NUL bytes': new Uint8Array(5),
    'an event that is not UTF-8': everyByte,
    'an event of 1 MiB': Uint8Array.from({ length: 2 ** 20 }, (_, n) => (n * n) % 251),
    'an event that is part of a larger buffer': everyByte.subarray(7, 19),
  };
  for (const [name, event] of Object.entries(cases)) {
    test(`event: ${name} is read back byte by byte`, async (t) => {
      const store = await start(t);
      const { record } = await store.accept(sampleJob('a'), sampleProgress(), event);
      assert.equal(record?.eventBytes, event.byteLength);
      const read = await store.event(sampleJob('a'));
      assert.ok(read);
      assert.ok(Buffer.from(event).equals(read));
    });
  }
}

function describeUpdates(start: StartJobs): void {
  /** Has every field; the type check fails when one is missing. */
  const everything: Required<JobProgress> & { readonly placement: Required<Placement> } = {
    state: 'failed',
    message: 'exit code 3 🐄 "\\\u0000',
    epoch: 2,
    startedAt: EPOCH + 1,
    finishedAt: EPOCH + 2,
    exitCode: 3,
    cancelRequested: { at: EPOCH, reason: 'asked by alice' },
    placement: {
      member: 'b/cow',
      epoch: 2,
      permittedAt: EPOCH,
      heardAt: EPOCH + 1,
      asked: { last: [{ time: EPOCH, nonce: 'k3Jv0aT1xQzP8mWb5sYcRg' }], forgotten: EPOCH - 1 },
      manifest: 'ab'.repeat(32),
    },
    handIn: { outcome: 'failed', reason: 'ScriptFailed', message: 'exit code 3', finishedAt: EPOCH + 2 },
    timeline: [{ state: 'failed', at: EPOCH + 2, reason: 'ScriptFailed', message: 'exit code 3', place: 'here' }],
    attempts: [{ name: 'cow-a', epoch: 1, place: 'here', startedAt: 1, finishedAt: 2, exitCode: 3 }],
    decisions: [
      {
        at: 1,
        policy: 'static',
        chosen: 'b',
        candidates: [
          { member: 'b', score: 1 },
          { member: 'c', refusal: 'NoRoom' },
        ],
      },
    ],
  };

  test('update: the next read returns the change, and fields that it does not name stay', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    const full = await store.update(made, made.version, everything);
    assert.deepEqual({ ...full }, { ...made, ...everything, version: full.version });
    assert.deepEqual(await store.get(made), full);
    const next = await store.update(made, full.version, { message: 'more' });
    assert.deepEqual({ ...next }, { ...full, message: 'more', version: next.version });
    assert.deepEqual(await store.get(made), next);
    assert.deepEqual(await store.event(made), EVENT);
  });

  test('update: never changes the fields that were fixed when the job was accepted', async (t) => {
    const store = await start(t);
    const made = await accepted(store, storageJob('a'));
    const stranger: JobRecord = {
      ...made,
      ...sampleJob('b', { service: 'dog', owner: 'mallory', principal: 'mallory', invoker: 'mallory', acceptedAt: 1 }),
      demand: { cpu: 0, memory: 0, gpu: 0 },
      eventBytes: 99,
      state: 'queued',
    };
    const updated = await store.update(made, made.version, stranger);
    assert.deepEqual({ ...updated }, { ...made, state: 'queued', version: updated.version });
    assert.deepEqual(await store.get(made), updated);
  });

  test('update: every write gets a new version, and only the latest version can be updated', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    const next = await store.update(made, made.version, {});
    assert.notEqual(next.version, made.version);
    await assert.rejects(store.update(made, made.version, { state: 'failed' }), { code: 'conflict' });
    await assert.rejects(store.update(made, 'nonsense' as Version, { state: 'failed' }), { code: 'conflict' });
    assert.deepEqual(await store.get(made), next);
  });

  test('update: of concurrent updates of one version, one succeeds', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    const attempts = await Promise.allSettled(
      Array.from({ length: CROWD }, (_, n) => store.update(made, made.version, { message: `by ${n}` })),
    );
    assert.deepEqual(await store.get(made), onlyOneWon(attempts, 'conflict'));
  });

  test('update: a job that does not exist is rejected as absent', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    await assert.rejects(store.update(sampleJob('b'), made.version, {}), { code: 'absent' });
    await assert.rejects(store.update({ ...made, service: 'dog' }, made.version, {}), { code: 'absent' });
  });
}
