import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobKey, JobRecord, JobState } from '../../model/job/index.ts';
import type { JobStore } from '../job-store.ts';
import { eventually } from './eventually.ts';
import { accepted, assertListed, EVENT, type StartJobs, unfinished } from './job-store-under-test.ts';
import { EPOCH, sampleJob, sampleProgress, storageJob } from './sample-job.ts';

const FINISHED = sampleProgress('succeeded', { startedAt: EPOCH, finishedAt: EPOCH + 5_000 });

/** Jobs are removed one by one, with their service, or by age. Some leave a tombstone. */
export function describeJobRemoval(start: StartJobs): void {
  describeRemove(start);
  describeRemoveService(start);
  describeExpire(start);
  describeTombstones(start);
}

function describeRemove(start: StartJobs): void {
  for (const trigger of ['job', 'run'] as const) {
    test(`remove: a finished job of /${trigger} is deleted, and its key can be used again`, async (t) => {
      const store = await start(t);
      const made = await accepted(store, sampleJob('a', { trigger }), FINISHED);
      assert.equal(await store.remove(made), true);
      await assertHidden(store, made);
      assert.equal(await store.remove(made), false);
      const again = await accepted(store, sampleJob('a', { trigger }));
      assert.notEqual(again.version, made.version);
      assert.deepEqual(await store.event(made), EVENT);
      await assert.rejects(store.update(made, made.version, {}), { code: 'conflict' });
    });
  }

  test('remove: a finished job of a storage event is hidden, and the same event does not create it again', async (t) => {
    const store = await start(t);
    const made = await accepted(store, storageJob('a'), FINISHED);
    assert.equal(await store.remove(made), true);
    await assertHidden(store, made);
    assert.deepEqual(await store.accept(storageJob('a'), sampleProgress(), EVENT), { outcome: 'exists' });
    await assertHidden(store, made);
    await assert.rejects(store.update(made, made.version, {}), { code: 'absent' });
    assert.equal(await store.remove(made), false);
  });

  for (const state of ['accepted', 'queued', 'offering', 'delegated', 'running', 'committing'] as const) {
    test(`remove: a job in state ${state} is rejected`, async (t) => {
      const store = await start(t);
      const made = await accepted(store, sampleJob('a'), sampleProgress(state));
      await assert.rejects(store.remove(made), { code: 'conflict' });
      assert.deepEqual(await store.get(made), made);
      assert.deepEqual(await store.event(made), EVENT);
    });
  }

  test('remove: returns false for a job that does not exist', async (t) => {
    const store = await start(t);
    await accepted(store, sampleJob('a'), FINISHED);
    assert.equal(await store.remove(sampleJob('b')), false);
    assert.equal(await store.remove({ service: 'dog', id: 'cow-a' }), false);
    await assertListed(store, ['cow-a']);
  });
}

function describeRemoveService(start: StartJobs): void {
  test('removeService: removes all jobs of the service in every state, hidden ones too, and no others', async (t) => {
    const store = await start(t);
    const hidden = await accepted(store, storageJob('hidden'), FINISHED);
    await store.remove(hidden);
    const running = await accepted(store, storageJob('running'), sampleProgress('running'));
    const finished = await accepted(store, sampleJob('finished'), FINISHED);
    const ofLater = await accepted(store, sampleJob('later', { serviceUid: 'of a service that has the name now' }));
    const ofDog = await accepted(store, sampleJob('a', { service: 'dog' }));

    const removed = await store.removeService('uid-of-cow');
    assert.deepEqual(byId(removed), [finished, running]);
    await assertHidden(store, sampleJob('running'), ['cow-later']);
    assert.deepEqual(await store.get(ofLater), ofLater);
    assert.deepEqual(await store.get(ofDog), ofDog);
    assert.deepEqual(await store.removeService('uid-of-cow'), []);
    for (const id of ['hidden', 'running']) await accepted(store, storageJob(id));
  });
}

function describeExpire(start: StartJobs): void {
  const endedAt = (finishedAt: number, state: JobState = 'failed') => sampleProgress(state, { finishedAt });

  test('expire: removes jobs that ended before the given time, and keeps those that ended then or later', async (t) => {
    const store = await start(t);
    const old = await accepted(store, sampleJob('old'), endedAt(EPOCH - 1, 'succeeded'));
    const older = await accepted(store, sampleJob('older'), endedAt(EPOCH - 2, 'cancelled'));
    await accepted(store, sampleJob('just'), endedAt(EPOCH));
    await accepted(store, sampleJob('young'), endedAt(EPOCH + 1));
    await accepted(store, sampleJob('unfinished', { acceptedAt: 0 }), sampleProgress('running', { startedAt: 1 }));
    assert.deepEqual(byId(await store.expire(EPOCH, 100)), [old, older]);
    await eventually(async () => {
      for (const id of ['old', 'older']) assert.equal(await store.get(sampleJob(id)), undefined);
      for (const id of ['just', 'young', 'unfinished']) assert.ok(await store.get(sampleJob(id)));
    });
    assert.deepEqual(await store.expire(EPOCH, 100), []);
  });

  test('expire: removes at most `limit` jobs per call, each once', async (t) => {
    const store = await start(t);
    const made: JobRecord[] = [];
    for (let n = 0; n < 7; n++) made.push(await accepted(store, sampleJob(`a${n}`), endedAt(EPOCH)));
    const expired: JobRecord[] = [];
    for (const expected of [3, 3, 1, 0]) {
      const some = await store.expire(EPOCH + 1, 3);
      assert.equal(some.length, expected);
      expired.push(...some);
    }
    assert.deepEqual(byId(expired), made);
  });

  test('expire: a job that ended without running expires by the time of its last transition', async (t) => {
    const store = await start(t);
    const { timeline, ...progress } = sampleProgress('cancelled');
    const [came] = timeline;
    assert.ok(came);
    const made = await accepted(store, sampleJob('a'), { ...progress, timeline: [{ ...came, at: EPOCH + 9 }] });
    assert.deepEqual(await store.expire(EPOCH + 9, 100), []);
    assert.deepEqual(await store.expire(EPOCH + 10, 100), [made]);
  });

  test('expire: a storage event does not create its expired job again, a call may', async (t) => {
    const store = await start(t);
    await accepted(store, storageJob('stored'), endedAt(EPOCH));
    await accepted(store, sampleJob('called'), endedAt(EPOCH));
    assert.equal((await store.expire(EPOCH + 1, 100)).length, 2);
    await assertHidden(store, storageJob('stored'));
    assert.deepEqual(await store.accept(storageJob('stored'), sampleProgress(), EVENT), { outcome: 'exists' });
    await accepted(store, sampleJob('called'));
  });
}

function describeTombstones(start: StartJobs): void {
  const hide = async (store: JobStore, job: ReturnType<typeof storageJob>) => {
    await accepted(store, job, FINISHED);
    await store.remove(job);
  };

  test('dropTombstones: drops the tombstones of one service whose object was modified before the given time', async (t) => {
    const store = await start(t);
    await hide(store, storageJob('old', { acceptedAt: EPOCH + 50 }, EPOCH - 1));
    await hide(store, storageJob('young', { acceptedAt: 0 }, EPOCH));
    await hide(store, storageJob('old', { service: 'dog' }, EPOCH - 1));
    const shown = await accepted(store, storageJob('shown', {}, EPOCH - 1), FINISHED);
    const running = await accepted(store, storageJob('running', {}, EPOCH - 1), sampleProgress('running'));

    assert.equal(await store.dropTombstones('uid-of-cow', EPOCH), 1);
    await accepted(store, storageJob('old'));
    for (const job of [storageJob('young'), storageJob('old', { service: 'dog' })]) {
      assert.equal((await store.accept(job, sampleProgress(), EVENT)).outcome, 'exists');
    }
    assert.deepEqual(await store.get(shown), shown);
    assert.deepEqual(await store.get(running), running);
    assert.equal(await store.dropTombstones('uid-of-cow', EPOCH), 0);
  });

  test('dropTombstones: uses the time of acceptance for an object without a modification time', async (t) => {
    const store = await start(t);
    const object = { bucket: 'meadow', key: 'in/a' };
    await hide(store, storageJob('old', { object, acceptedAt: EPOCH - 1 }));
    await hide(store, storageJob('young', { object, acceptedAt: EPOCH }));
    assert.equal(await store.dropTombstones('uid-of-cow', EPOCH), 1);
    await accepted(store, storageJob('old'));
    assert.equal((await store.accept(storageJob('young'), sampleProgress(), EVENT)).outcome, 'exists');
  });
}

const byId = (records: readonly JobRecord[]) => records.toSorted((a, b) => (a.id < b.id ? -1 : 1));

async function assertHidden(store: JobStore, key: JobKey, left: string[] = []): Promise<void> {
  assert.equal(await store.get(key), undefined);
  assert.equal(await store.event(key), undefined);
  await assertListed(store, left);
  await eventually(async () => {
    const counted = [...(await store.counts()).values()].reduce((sum, n) => sum + n, 0);
    const ofDog = (await store.list({ service: 'dog', limit: 100 })).items.length;
    assert.equal(counted, left.length + ofDog);
    assert.equal((await unfinished(store)).includes(key.id), false);
  });
}
