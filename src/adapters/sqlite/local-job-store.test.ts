import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  makeTemporaryDirectory,
  removeTemporaryDirectory,
  temporaryDirectory,
} from '../../../test/support/temporary-directory.ts';
import { describeJobStore } from '../../ports/conformance/job-store.conformance.ts';
import { accepted, acceptedInTurn, listed } from '../../ports/conformance/job-store-under-test.ts';
import { EPOCH, sampleJob, sampleProgress, storageJob } from '../../ports/conformance/sample-job.ts';
import { Database, MIGRATIONS } from './database.ts';
import {
  CHANGED,
  DROP_TOMBSTONES,
  ENDED,
  LIST,
  LIST_OF_INVOKER,
  LIST_OF_PRINCIPAL,
  LIST_OF_STATE,
  OF_SERVICE,
  OLDEST_WAITING,
  REMOVED_JOBS,
  UNFINISHED_QUERY,
} from './job-rows.ts';
import { LocalJobStore, type LocalJobStoreOptions, USAGE } from './local-job-store.ts';

/** So small that work in slices needs several of them. */
const SLICE = 2;

for (const [name, options] of Object.entries({ SQLite: {}, 'SQLite in small slices': { slice: SLICE } })) {
  describeJobStore(name, async () => {
    const directory = makeTemporaryDirectory();
    const database = new Database(join(directory, 'manager.db'));
    const close = () => {
      database.close();
      removeTemporaryDirectory(directory);
    };
    return { store: new LocalJobStore(database, { now: Date.now, ...options }), close };
  });
}

function open(t: TestContext, options: Partial<LocalJobStoreOptions> = {}, path = pathIn(t)) {
  const database = new Database(path);
  t.after(() => database.close());
  return { database, path, store: new LocalJobStore(database, { now: Date.now, ...options }) };
}

const pathIn = (t: TestContext) => join(temporaryDirectory(t), 'test.db');

/** Opens the same file again, as a restarted manager does. */
function reopen(t: TestContext, { database, path }: ReturnType<typeof open>, options?: Partial<LocalJobStoreOptions>) {
  database.close();
  return open(t, options, path);
}

const FINISHED = sampleProgress('succeeded', { finishedAt: EPOCH });

test('accept: changes that the caller makes to its arguments after the call are not stored', async (t) => {
  const { store } = open(t);
  const demand = { cpu: 1, memory: 2, gpu: 3 };
  const event = new Uint8Array([1, 2, 3]);
  const accepting = store.accept(sampleJob('a', { demand }), sampleProgress(), event);
  demand.cpu = 99;
  event.fill(9);
  assert.equal((await accepting).record?.demand.cpu, 1);
  assert.deepEqual(await store.event(sampleJob('a')), new Uint8Array([1, 2, 3]));
});

test('usage: a running job counts until now', async (t) => {
  const { store } = open(t, { now: () => EPOCH + 7_500 });
  const running = sampleProgress('running', { startedAt: EPOCH + 500 });
  await accepted(store, sampleJob('a', { demand: { cpu: 500, memory: 0, gpu: 1 } }), running);
  const [row] = await store.usage({ from: EPOCH, to: EPOCH + 60_000 });
  assert.deepEqual([row?.cpuSeconds, row?.gpuSeconds], [3.5, 7]);
});

test('usage: each job counts once when the jobs are read in several slices', async (t) => {
  const { store } = open(t);
  const jobs = Array.from({ length: 2_100 }, (_, n) => sampleJob(`a${n}`, { acceptedAt: EPOCH + (n % 3) }));
  await Promise.all(jobs.map((job) => accepted(store, job)));
  const [row] = await store.usage({ from: EPOCH, to: EPOCH + 10 });
  assert.equal(row?.jobs, jobs.length);
});

test('remove: the tombstone of a job keeps neither its event nor its definition', async (t) => {
  const { store, database } = open(t);
  await store.remove(await accepted(store, storageJob('a'), FINISHED));
  const rows = database.query<object>('SELECT job, progress, (SELECT count(*) FROM job_events) AS events FROM jobs');
  assert.deepEqual(
    rows.all().map((row) => ({ ...row })),
    [{ job: '', progress: '', events: 0 }],
  );
});

test('remove: the event is removed with its job', async (t) => {
  const { store, database } = open(t);
  await store.remove(await accepted(store, sampleJob('a'), FINISHED));
  await accepted(store, sampleJob('b'));
  await store.removeService('uid-of-cow');
  assert.equal(database.query<{ n: number }>('SELECT count(*) AS n FROM job_events').get()?.n, 0);
});

test('changes: they continue after a restart, even if the newest jobs were removed', async (t) => {
  const first = open(t);
  await acceptedInTurn(first.store, ['a', 'b']);
  const { cursor: before } = await first.store.changes({ limit: 1 });
  await first.store.removeService('uid-of-cow');
  const { cursor: between } = await first.store.changes({ limit: 1 });
  const { store } = reopen(t, first);
  const made = await accepted(store, sampleJob('c'));
  const gone = ['cow-a', 'cow-b'].map((id) => ({ key: { service: 'cow', id } }));
  const came = { key: { service: 'cow', id: 'cow-c' }, record: made };
  assert.deepEqual((await store.changes({ since: before, limit: 10 })).items, [...gone, came]);
  assert.deepEqual((await store.changes({ since: between, limit: 10 })).items, [came]);
});

test('changes: a change is not listed before it is on the disk', async (t) => {
  const { store } = open(t);
  const accepting = accepted(store, sampleJob('a'));
  // The transaction began before this turn, and is written to the disk in a later one.
  await new Promise(setImmediate);
  assert.ok(await store.get(sampleJob('a')), 'the job can already be read');
  const { cursor } = await store.changes({ limit: 1 });
  await accepting;
  const { items } = await store.changes({ since: cursor, limit: 1 });
  assert.deepEqual(
    items.map(({ key }) => key.id),
    ['cow-a'],
  );
});

test('changes: a cursor of another store or of a list has expired', async (t) => {
  const [one, two] = [open(t), open(t)];
  for (const { store } of [one, two]) await acceptedInTurn(store, ['a', 'b']);
  const { cursor } = await one.store.changes({ limit: 1 });
  await assert.rejects(two.store.changes({ since: cursor, limit: 1 }), { code: 'expired', message: /list again/ });
  const { next } = await one.store.list({ service: 'cow', limit: 1 });
  assert.ok(next);
  await assert.rejects(one.store.changes({ since: next, limit: 1 }), { code: 'expired' });
  await assert.rejects(one.store.list({ service: 'cow', limit: 1, cursor }), { code: 'expired' });
});

test('changes: a cursor that is newer than a restored backup has expired', async (t) => {
  const first = open(t);
  await accepted(first.store, sampleJob('a'), FINISHED);
  first.database.query(`VACUUM INTO '${first.path}.backup'`).run();
  await accepted(first.store, sampleJob('b'));
  const { cursor } = await first.store.changes({ limit: 1 });
  const { store } = open(t, {}, `${first.path}.backup`);
  await assert.rejects(store.changes({ since: cursor, limit: 1 }), { code: 'expired' });
});

test('changes: a limited number of removals is kept, and an older cursor has expired', async (t) => {
  const first = open(t, { removedKept: 10 });
  await accepted(first.store, sampleJob('stays'));
  const { cursor: start } = await first.store.changes({ limit: 1 });
  const cursors = [];
  for (let n = 0; n < 12; n++) {
    await first.store.remove(await accepted(first.store, sampleJob(`a${n}`), FINISHED));
    cursors.push((await first.store.changes({ limit: 1 })).cursor);
  }
  const [afterFirst, afterSecond] = cursors;
  assert.ok(afterFirst && afterSecond);
  const { store } = reopen(t, first, { removedKept: 10 });
  await assert.rejects(store.changes({ since: start, limit: 100 }), { code: 'expired' });
  await assert.rejects(store.changes({ since: afterFirst, limit: 100 }), { code: 'expired' });
  const { items } = await store.changes({ since: afterSecond, limit: 100 });
  assert.deepEqual(
    items.map(({ key }) => key.id),
    Array.from({ length: 10 }, (_, n) => `cow-a${n + 2}`),
  );
});

test('changes: a listener is called once per transaction', async (t) => {
  const { store } = open(t);
  let calls = 0;
  t.after(store.onChange(() => (calls += 1)));
  await Promise.all(Array.from({ length: 50 }, (_, n) => accepted(store, sampleJob(`a${n}`))));
  assert.equal(calls, 1);
});

test('migration: a database without job tables gets them, and keeps its data', async (t) => {
  const path = pathIn(t);
  const old = new Database(path, MIGRATIONS.slice(0, 1));
  old.query("INSERT INTO journal (key, version, state) VALUES ('k', 'v', '{}')").run();
  old.close();
  const { store, database } = open(t, {}, path);
  await accepted(store, sampleJob('a'));
  assert.deepEqual(await listed(store), ['cow-a']);
  assert.equal(database.query<{ key: string }>('SELECT key FROM journal').get()?.key, 'k');
});

const PLANS: Record<string, [sql: string, plan: RegExp]> = {
  'a list': [LIST, /USING INDEX jobs_listed \(service=\? AND accepted_at<\?\)/],
  'a list over all services': [LIST_OF_STATE, /USING INDEX jobs_of_state \(state=\? AND accepted_at<\?\)/],
  'a list of an invoker': [
    LIST_OF_INVOKER,
    /USING INDEX jobs_of_invoker \(invoker=\? AND state=\? AND accepted_at<\?\)/,
  ],
  'a list of a principal': [
    LIST_OF_PRINCIPAL,
    /USING INDEX jobs_of_principal \(principal=\? AND state=\? AND accepted_at<\?\)/,
  ],
  'the unfinished': [UNFINISHED_QUERY, /USING INDEX jobs_unfinished \(accepted_at>\?\)/],
  'those that ended before': [ENDED, /USING INDEX jobs_ended \(ended_at<\?\)/],
  'those of a service': [OF_SERVICE, /USING INDEX jobs_of_service \(service_uid=\?\)/],
  'marks to drop': [DROP_TOMBSTONES, /USING COVERING INDEX jobs_marks \(service_uid=\? AND marked_at<\?\)/],
  'the oldest that waits': [OLDEST_WAITING, /USING COVERING INDEX jobs_unfinished/],
  'what changed': [CHANGED, /USING INDEX jobs_changed \(change>\? AND change<\?\)/],
  'what is gone': [REMOVED_JOBS, /USING INTEGER PRIMARY KEY \(rowid>\? AND rowid<\?\)/],
  usage: [USAGE, /USING INDEX jobs_accepted \(accepted_at>\? AND accepted_at<\?\)/],
};
for (const [name, [sql, plan]] of Object.entries(PLANS)) {
  test(`query plan: ${name} uses an index in its order`, (t) => {
    const { database } = open(t);
    const details = database.query<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all();
    const text = details.map(({ detail }) => detail).join('\n');
    assert.match(text, plan);
    assert.doesNotMatch(text, /TEMP B-TREE|SCAN jobs$/m);
  });
}

test('accept: accepting a job twice uses no sequence number that a restart would not know', async (t) => {
  const first = open(t);
  for (let times = 0; times < 2; times++)
    await first.store.accept(sampleJob('a'), sampleProgress('queued'), new Uint8Array());
  const { cursor } = await first.store.changes({ limit: 1 });
  const { store } = reopen(t, first);
  assert.deepEqual((await store.changes({ since: cursor, limit: 1 })).items, []);
});
