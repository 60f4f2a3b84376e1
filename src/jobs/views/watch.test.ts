import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Cursor } from '../../lib/version.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { StoreError } from '../../ports/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, BOB, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { removeJob } from '../scheduler/end.ts';
import { listJobs } from './find.ts';
import { changedJobs, currentCursor, followJobs } from './watch.ts';

const RUNS = 4 * Number(process.env['OSCAR_TEST_ROUNDS'] ?? 5);

const admin = { kind: 'admin' } as const;
const user = (uid: string) => ({ kind: 'user', uid, name: uid, groups: [], operator: false }) as const;
const never = () => new AbortController().signal;

async function submit(jobs: TestJobs, service: string, uid = ALICE): Promise<JobKey> {
  const record = await jobs.services.get(service);
  assert.ok(record);
  return submitJob(user(uid), record, Buffer.from('{}'), 'job', jobs);
}

async function finish(jobs: TestJobs, key: JobKey): Promise<void> {
  await eventually(() => assert.ok(jobs.runner.attempts.has(key.id)));
  jobs.runner.end(key.id);
  await jobs.until(key, 'succeeded');
}

const statesOf = (records: readonly JobRecord[]) => new Map(records.map(({ id, state }) => [id, state]));

const changes = (jobs: TestJobs, service: string, since: Cursor, wait = 0, uid?: string) =>
  changedJobs(uid === undefined ? admin : user(uid), service, { since, wait, signal: never() }, jobs);

test('watch: changes of other services and users do not end the wait', async () => {
  await using jobs = await openJobs(100_000);
  await jobs.service('open', { visibility: 'public' });
  await jobs.service('other');
  const since = await currentCursor(jobs);
  const waiting = changes(jobs, 'open', since, 60_000, BOB);
  await finish(jobs, await submit(jobs, 'other'));
  await finish(jobs, await submit(jobs, 'open', ALICE));
  const own = await submit(jobs, 'open', BOB);
  const { jobs: changed, gone } = await waiting;
  assert.deepEqual([[...new Set(changed.map(({ id }) => id))], gone], [[own.id], []]);
});

test('watch: the wait ends when the client disconnects', async () => {
  await using jobs = await openJobs();
  await jobs.service('demo');
  const since = await currentCursor(jobs);
  const leaving = new AbortController();
  const waiting = changedJobs(admin, 'demo', { since, wait: 60_000, signal: leaving.signal }, jobs);
  leaving.abort();
  assert.deepEqual(await waiting, { jobs: [], gone: [], cursor: since });
  assert.deepEqual((await changedJobs(admin, 'demo', { since, wait: 60_000, signal: leaving.signal }, jobs)).jobs, []);
});

test('watch: a job of an earlier service of the same name is not shown', async () => {
  await using jobs = await openJobs(0);
  const old = await jobs.service('demo');
  const since = await currentCursor(jobs);
  await submit(jobs, 'demo');
  await jobs.services.remove('demo', old.version);
  await jobs.service('demo');
  assert.deepEqual((await changes(jobs, 'demo', since)).jobs, []);
});

test('watch: a slow reader gets each job once, in its newest state', async () => {
  await using jobs = await openJobs(100_000);
  await jobs.service('demo');
  const leaving = new AbortController();
  const options = { since: await currentCursor(jobs), idle: 60_000, signal: leaving.signal };
  const following = followJobs(admin, options, jobs);
  await following.next();
  const keys = [await submit(jobs, 'demo'), await submit(jobs, 'demo')];
  for (const key of keys) await finish(jobs, key);
  const { value } = await following.next();
  assert.ok(value && 'jobs' in value);
  assert.deepEqual(statesOf(value.jobs), new Map(keys.map(({ id }) => [id, 'succeeded'])));
  leaving.abort();
  assert.equal((await following.next()).done, true);
});

test('watch: an expired cursor reports missed changes and continues from now', async () => {
  await using jobs = await openJobs(100_000);
  await jobs.service('demo');
  await submit(jobs, 'demo');
  const leaving = new AbortController();
  const options = { since: 'bogus' as Cursor, idle: 60_000, signal: leaving.signal };
  const following = followJobs(admin, options, jobs);
  const { value: first } = await following.next();
  assert.ok(first && 'missed' in first);
  const key = await submit(jobs, 'demo');
  const seen = new Set<string>();
  for await (const each of following) {
    assert.ok('jobs' in each);
    for (const { id } of each.jobs) seen.add(id);
    if (seen.has(key.id)) leaving.abort();
  }
  assert.ok(seen.has(key.id));
});

test('watch: a store error is not treated as an expired cursor', async () => {
  await using jobs = await openJobs();
  const broken = new StoreError('unavailable', 'the disk is gone');
  const store = Object.assign(Object.create(jobs.store) as typeof jobs.store, {
    changes: () => Promise.reject(broken),
    onChange: () => () => {},
  });
  const options = { since: 'x' as Cursor, idle: 60_000, signal: never() };
  await assert.rejects(followJobs(admin, options, { ...jobs, store }).next(), broken);
});

test('watch: a list plus all changes since equals the later list', async () => {
  // Room for all that are never finished, in however many runs.
  await using jobs = await openJobs(1e9);
  const step = fc.constantFrom('submit', 'finish', 'remove', 'read');
  let services = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
      const name = `demo-${services++}`;
      await jobs.service(name);
      const copy = new Map<string, JobRecord['state']>();
      let cursor = await currentCursor(jobs);
      const keys: JobKey[] = [];
      const read = async () => {
        const seen = await changes(jobs, name, cursor);
        for (const { id, state } of seen.jobs) copy.set(id, state);
        for (const { id } of seen.gone) copy.delete(id);
        cursor = seen.cursor;
      };
      for (const each of steps) {
        if (each === 'submit') keys.push(await submit(jobs, name));
        else if (each === 'read') await read();
        else if (each === 'finish' && keys[0] && (await jobs.store.get(keys[0]))?.state !== 'succeeded') {
          await finish(jobs, keys[0]);
        } else if (each === 'remove' && keys[0]) {
          const [first] = keys.splice(0, 1);
          if (first) await removeJob(admin, name, first.id, jobs);
        }
      }
      // What is on its way to the disk may be listed already and is told of when it is there.
      await eventually(async () => {
        await read();
        const { items } = await listJobs(admin, name, { limit: 100 }, jobs);
        assert.deepEqual(copy, statesOf(items));
      });
    }),
    { numRuns: RUNS },
  );
});
