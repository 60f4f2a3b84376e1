import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cursor } from '../../lib/version.ts';
import type { JobState, NewJob } from '../../model/job/index.ts';
import { listAllPages } from '../cursor.ts';
import type { JobQuery, UsageRow } from '../job-store.ts';
import { eventually } from './eventually.ts';
import { accepted, acceptedInTurn, assertListed, type StartJobs, unfinished } from './job-store-under-test.ts';
import { EPOCH, sampleJob, sampleProgress, storageJob } from './sample-job.ts';

const SECOND = 1_000;

/** Lists and sums may lag behind, so every test here waits until they have caught up. */
export function describeJobLists(start: StartJobs): void {
  describeList(start);
  describeFilters(start);
  describeUnfinished(start);
  describeSums(start);
  describeUsage(start);
}

function describeList(start: StartJobs): void {
  test('list: returns the records of one service, the newest first, equal to those of get', async (t) => {
    const store = await start(t);
    await assertListed(store, []);
    const made = await acceptedInTurn(store, ['a', 'b', 'c']);
    await accepted(store, sampleJob('a', { service: 'dog' }));
    await assertListed(store, ['cow-c', 'cow-b', 'cow-a']);
    const { items, next } = await store.list({ service: 'cow', limit: 3 });
    assert.deepEqual(items, made.toReversed());
    assert.equal(next, undefined);
  });

  test('list: the pages together are the whole list, and no page exceeds the limit', async (t) => {
    const store = await start(t);
    const made = await acceptedInTurn(store, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    for (const limit of [1, 3, 7, 8]) {
      await eventually(async () => {
        const pages = await listAllPages((cursor) => store.list({ service: 'cow', limit, ...(cursor && { cursor }) }));
        assert.deepEqual(pages.flat(), made.toReversed());
        assert.ok(pages.every((page) => page.length <= limit));
      });
    }
  });

  test('list: jobs accepted at the same time are each listed once', async (t) => {
    const store = await start(t);
    const ids = ['a', 'b', 'c', 'd', 'e'];
    await Promise.all(ids.map((id) => accepted(store, sampleJob(id))));
    await eventually(async () => {
      const pages = await listAllPages((cursor) => store.list({ service: 'cow', limit: 2, ...(cursor && { cursor }) }));
      const found = pages.flat().map(({ id }) => id);
      assert.deepEqual(
        found.toSorted(),
        ids.map((id) => `cow-${id}`),
      );
    });
  });

  test('list: a job that exists throughout paging is listed once, while others are added, changed and removed', async (t) => {
    const store = await start(t);
    const stay = ['b', 'd', 'f', 'h', 'j'];
    const made = await acceptedInTurn(store, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']);
    const go = made.filter((_, n) => n % 2 === 0);
    let round = 0;
    await eventually(async () => {
      const pages = await listAllPages(async (cursor) => {
        const page = await store.list({ service: 'cow', limit: 2, ...(cursor && { cursor }) });
        round += 1;
        await accepted(store, sampleJob(`new${round}`, { acceptedAt: EPOCH + (100 + round) * SECOND }));
        const [gone] = go.splice(0, 1);
        if (gone) await store.update(gone, gone.version, { state: 'failed' }).then((ended) => store.remove(ended));
        const [, changes] = made;
        const current = changes && (await store.get(changes));
        if (current) await store.update(current, current.version, { message: `round ${round}` });
        return page;
      });
      const found = pages.flat().map(({ id }) => id);
      assert.equal(new Set(found).size, found.length);
      const stayed = found.filter((id) => stay.includes(id.slice('cow-'.length)));
      assert.deepEqual(stayed, stay.map((id) => `cow-${id}`).toReversed());
    });
  });

  test('list: an invalid cursor is rejected as expired', async (t) => {
    const store = await start(t);
    await acceptedInTurn(store, ['a', 'b']);
    for (const cursor of ['', 'nonsense', '🐄']) {
      await assert.rejects(store.list({ service: 'cow', limit: 1, cursor: cursor as Cursor }), { code: 'expired' });
    }
  });
}

function describeFilters(start: StartJobs): void {
  test('list: without a service, the jobs of all services are listed together, with the same filters and pages', async (t) => {
    const store = await start(t);
    const jobs: [service: string, id: string, Partial<NewJob>, JobState][] = [
      ['cow', 'a', { invoker: 'alice', principal: 'alice', trigger: 'job' }, 'failed'],
      ['dog', 'b', { invoker: 'bob', principal: 'alice', trigger: 'storage' }, 'running'],
      ['cow', 'c', { invoker: 'alice', principal: 'bob', trigger: 'job' }, 'running'],
      ['dog', 'd', { invoker: 'bob', principal: 'bob', trigger: 'job' }, 'queued'],
      ['cow', 'e', { invoker: 'alice', principal: 'alice', trigger: 'run' }, 'succeeded'],
    ];
    for (const [n, [service, id, known, state]] of jobs.entries()) {
      // Two are accepted at the same time.
      const acceptedAt = EPOCH + Math.min(n, 3) * SECOND;
      await accepted(store, sampleJob('', { service, id, ...known, acceptedAt }), sampleProgress(state));
    }
    const cases: [Omit<JobQuery, 'limit'>, string][] = [
      [{}, 'edcba'],
      [{ states: ['running', 'queued'] }, 'dcb'],
      [{ states: [] }, ''],
      [{ concerning: 'alice' }, 'ecba'],
      [{ concerning: 'bob', states: ['running'] }, 'cb'],
      [{ concerning: 'nobody' }, ''],
      [{ triggers: ['storage', 'run'] }, 'eb'],
      [{ concerning: 'alice', triggers: ['job'], states: ['failed'] }, 'a'],
    ];
    for (const [query, expected] of cases) {
      for (const limit of [1, 2, 100]) {
        await eventually(async () => {
          const pages = await listAllPages((cursor) => store.list({ ...query, limit, ...(cursor && { cursor }) }));
          assert.ok(pages.every((page) => page.length <= limit));
          const ids = pages.flat().map(({ id }) => id);
          // Stores may order jobs that were accepted at the same time as they like.
          assert.deepEqual(ids.toSorted(), Array.from(expected).toSorted());
          const times = pages.flat().map(({ acceptedAt }) => acceptedAt);
          assert.deepEqual(
            times,
            times.toSorted((a, b) => b - a),
          );
        });
      }
    }
    const hidden = await store.get({ service: 'cow', id: 'a' });
    assert.ok(hidden);
    await store.remove(hidden);
    await eventually(async () => {
      const { items } = await store.list({ concerning: 'alice', limit: 10 });
      assert.deepEqual(items.map(({ id }) => id).toSorted(), ['b', 'c', 'e']);
    });
  });

  test('list: filters are combined with AND, for every page size', async (t) => {
    const store = await start(t);
    const jobs: [string, Partial<NewJob>, JobState][] = [
      ['a', { invoker: 'alice', principal: 'alice', trigger: 'job' }, 'accepted'],
      ['b', { invoker: 'bob', principal: 'alice', trigger: 'storage' }, 'running'],
      ['c', { invoker: 'alice', principal: 'bob', trigger: 'run' }, 'failed'],
      ['d', { invoker: '', principal: 'carol', trigger: 'storage' }, 'failed'],
      ['e', { invoker: 'carol', principal: 'carol', trigger: 'job' }, 'succeeded'],
      ['f', { invoker: 'bob', principal: 'bob', trigger: 'job' }, 'failed'],
    ];
    for (const [n, [id, known, state]] of jobs.entries()) {
      await accepted(store, sampleJob(id, { ...known, acceptedAt: EPOCH + n * SECOND }), sampleProgress(state));
    }
    const cases: [Partial<JobQuery>, string][] = [
      [{}, 'fedcba'],
      [{ states: ['failed'] }, 'fdc'],
      [{ states: ['failed', 'running', 'queued'] }, 'fdcb'],
      [{ states: [] }, ''],
      [{ concerning: 'bob' }, 'fcb'],
      [{ concerning: 'carol' }, 'ed'],
      [{ concerning: 'nobody' }, ''],
      [{ concerning: '%' }, ''],
      [{ triggers: ['storage'] }, 'db'],
      [{ triggers: ['run', 'job'] }, 'feca'],
      [{ triggers: [] }, ''],
      [{ states: ['failed'], concerning: 'bob' }, 'fc'],
      [{ states: ['failed'], concerning: 'bob', triggers: ['job'] }, 'f'],
      [{ states: ['failed'], service: 'dog' }, ''],
    ];
    for (const [query, expected] of cases) {
      const ids = Array.from(expected, (id) => `cow-${id}`);
      for (const limit of [1, 2, 100]) await assertListed(store, ids, { ...query, limit });
    }
  });

  test('list: the state filter follows an update of the job', async (t) => {
    const store = await start(t);
    const [, made] = await acceptedInTurn(store, ['a', 'b', 'c']);
    assert.ok(made);
    await store.update(made, made.version, { state: 'running' });
    await assertListed(store, ['cow-b'], { states: ['running'] });
    await assertListed(store, ['cow-c', 'cow-a'], { states: ['accepted'] });
  });
}

function describeUnfinished(start: StartJobs): void {
  test('unfinished: returns the jobs of all services that are in no final state, the oldest first', async (t) => {
    const store = await start(t);
    const states: JobState[] = ['accepted', 'queued', 'offering', 'delegated', 'running', 'committing'];
    const finals: JobState[] = ['succeeded', 'failed', 'cancelled'];
    for (const [n, state] of [...finals, ...states].entries()) {
      const service = n % 2 === 0 ? 'cow' : 'dog';
      await accepted(store, sampleJob('', { service, id: state, acceptedAt: EPOCH + n }), sampleProgress(state));
    }
    await eventually(async () => assert.deepEqual(await unfinished(store), states));
  });

  test('unfinished: a job that ended is no longer returned', async (t) => {
    const store = await start(t);
    const [first] = await acceptedInTurn(store, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    assert.ok(first);
    const ended = await store.update(first, first.version, { state: 'cancelled' });
    const rest = ['b', 'c', 'd', 'e', 'f', 'g'].map((id) => `cow-${id}`);
    await eventually(async () => assert.deepEqual(await unfinished(store), rest));
    await store.remove(ended);
    await eventually(async () => assert.deepEqual(await unfinished(store), rest));
  });

  test('unfinished: jobs may finish while the iteration goes on', async (t) => {
    const store = await start(t);
    const made = await acceptedInTurn(store, ['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    const seen: string[] = [];
    await eventually(async () => assert.equal((await unfinished(store)).length, made.length));
    for await (const record of store.unfinished()) {
      seen.push(record.id);
      await store.update(record, record.version, { state: 'succeeded' });
    }
    assert.deepEqual(
      seen,
      made.map(({ id }) => id),
    );
    await eventually(async () => assert.deepEqual(await unfinished(store), []));
  });
}

function describeSums(start: StartJobs): void {
  test('counts: jobs are counted by their current state, and hidden jobs are not counted', async (t) => {
    const store = await start(t);
    const counts = async () => Object.fromEntries([...(await store.counts())].filter(([, n]) => n > 0));
    const counted = (expected: Record<string, number>) =>
      eventually(async () => assert.deepEqual(await counts(), expected));
    await counted({});
    const [a, b] = await acceptedInTurn(store, ['a', 'b']);
    const c = await accepted(store, storageJob('c', { service: 'dog' }), sampleProgress('failed'));
    await counted({ accepted: 2, failed: 1 });
    assert.ok(a && b);
    const running = await store.update(a, a.version, { state: 'running' });
    await counted({ accepted: 1, running: 1, failed: 1 });
    await store.update(a, running.version, { message: 'half way' });
    await store.accept(b, sampleProgress('running'), new Uint8Array());
    await assert.rejects(store.update(b, a.version, { state: 'running' }), { code: 'conflict' });
    await counted({ accepted: 1, running: 1, failed: 1 });
    await store.remove(c);
    await counted({ accepted: 1, running: 1 });
    await store.removeService(c.serviceUid);
    await counted({ accepted: 1, running: 1 });
    await store.removeService(a.serviceUid);
    await counted({});
  });

  test('oldestWaiting: returns when the oldest accepted, queued or offered job was accepted', async (t) => {
    const store = await start(t);
    const waitsSince = (at: number | undefined) =>
      eventually(async () => assert.equal(await store.oldestWaiting(), at));
    await waitsSince(undefined);
    const states: JobState[] = ['succeeded', 'running', 'delegated', 'committing', 'offering', 'queued', 'accepted'];
    const made = [];
    for (const [n, state] of states.entries()) {
      made.push(await accepted(store, sampleJob(state, { acceptedAt: EPOCH + n }), sampleProgress(state)));
    }
    for (const [n, record] of made.entries()) {
      if (n < 4) continue;
      await waitsSince(EPOCH + n);
      await store.update(record, record.version, { state: 'running' });
    }
    await waitsSince(undefined);
  });
}

function describeUsage(start: StartJobs): void {
  const ran = (from: number, to?: number) =>
    sampleProgress(to === undefined ? 'running' : 'succeeded', {
      startedAt: EPOCH + from * SECOND,
      ...(to !== undefined && { finishedAt: EPOCH + to * SECOND }),
    });
  const range = { from: EPOCH, to: EPOCH + 60 * SECOND };
  const cpu = (millicores: number, gpu = 0) => ({ demand: { cpu: millicores, memory: 1, gpu } });
  const row = (known: Partial<UsageRow>): UsageRow => ({
    service: 'cow',
    invoker: 'alice',
    trigger: 'job',
    jobs: 1,
    cpuSeconds: 0,
    gpuSeconds: 0,
    ...known,
  });

  test('usage: returns a row per service, invoker and trigger', async (t) => {
    const store = await start(t);
    const jobs: [NewJob, [number, number?]][] = [
      [sampleJob('a', cpu(500, 2)), [0, 10]],
      [sampleJob('b', cpu(2_000)), [10, 15]],
      [sampleJob('c', { ...cpu(1_000), trigger: 'run' }), [0, 1]],
      [sampleJob('d', { ...cpu(1_000), invoker: '' }), [0, 2]],
      [sampleJob('e', { ...cpu(1_000, 1), service: 'dog' }), [0, 3]],
    ];
    for (const [job, [from, to]] of jobs) await accepted(store, job, ran(from, to));
    await eventually(async () =>
      assert.deepEqual(sorted(await store.usage(range)), [
        row({ invoker: '', cpuSeconds: 2 }),
        row({ jobs: 2, cpuSeconds: 15, gpuSeconds: 20 }),
        row({ trigger: 'run', cpuSeconds: 1 }),
        row({ service: 'dog', cpuSeconds: 3, gpuSeconds: 3 }),
      ]),
    );
  });

  const cases: Record<string, [NewJob, [number, number?] | undefined, UsageRow[]]> = {
    'a job that never started used nothing': [sampleJob('a'), undefined, [row({})]],
    'a job that ran past the end of the range counts up to the end': [
      sampleJob('a', cpu(1_000)),
      [50, 99],
      [row({ cpuSeconds: 10 })],
    ],
    'a job that still runs counts up to the end of the range': [
      sampleJob('a', cpu(1_000)),
      [50],
      [row({ cpuSeconds: 10 })],
    ],
    'a job that started before the range counts from its beginning': [
      sampleJob('a', cpu(1_000)),
      [-5, 5],
      [row({ cpuSeconds: 5 })],
    ],
    'a job that started after the range used nothing': [sampleJob('a', cpu(1_000)), [60, 70], [row({})]],
    'a job accepted before the range does not count': [sampleJob('a', { acceptedAt: EPOCH - 1 }), [0, 5], []],
    'a job accepted at the end of the range does not count': [sampleJob('a', { acceptedAt: range.to }), [60, 70], []],
    'a job accepted just before the end of the range counts': [
      sampleJob('a', { acceptedAt: range.to - 1 }),
      undefined,
      [row({})],
    ],
  };
  for (const [name, [job, times, expected]] of Object.entries(cases)) {
    test(`usage: ${name}`, async (t) => {
      const store = await start(t);
      await accepted(store, job, times ? ran(...times) : sampleProgress());
      await eventually(async () => assert.deepEqual(await store.usage(range), expected));
    });
  }
}

const sortKey = (row: UsageRow) => `${row.service} ${row.invoker} ${row.trigger}`;
const sorted = (rows: UsageRow[]) => rows.toSorted((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1));
