import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Cursor, Version } from '../../lib/version.ts';
import type { JobStore } from '../job-store.ts';
import { eventually } from './eventually.ts';
import { accepted, acceptedInTurn, type StartJobs } from './job-store-under-test.ts';
import { sampleJob, sampleProgress, storageJob } from './sample-job.ts';

const FINISHED = sampleProgress('succeeded');

/** A store may report changes late, so every test here waits for them. */
export function describeJobChanges(start: StartJobs): void {
  test('changes: a query without a cursor returns no changes and the current cursor', async (t) => {
    const store = await start(t);
    await acceptedInTurn(store, ['a', 'b']);
    assert.deepEqual((await store.changes({ limit: 10 })).items, []);
  });

  for (const limit of [1, 2, 100]) {
    test(`changes: a follower that reads pages of ${limit} ends up with the current records`, async (t) => {
      const store = await start(t);
      const [, changes, goes] = await acceptedInTurn(store, ['stays', 'changes', 'goes']);
      const follower = await Follower.from(store, limit);
      assert.ok(changes && goes);
      const made = await accepted(store, sampleJob('new'));
      const first = await store.update(changes, changes.version, { state: 'queued' });
      const second = await store.update(changes, first.version, { state: 'running' });
      const ended = await store.update(goes, goes.version, { state: 'failed' });
      await store.remove(ended);
      const hidden = await accepted(store, storageJob('hidden'), FINISHED);
      await store.remove(hidden);
      await follower.sees({
        'cow/cow-new': made.version,
        'cow/cow-changes': second.version,
        'cow/cow-goes': undefined,
        'cow/cow-hidden': undefined,
      });
    });
  }

  test('changes: each changed job is reported once, in the order of its last change', async (t) => {
    const store = await start(t);
    const { cursor } = await store.changes({ limit: 1 });
    const [a, , c] = await acceptedInTurn(store, ['a', 'b', 'c']);
    assert.ok(a && c);
    const ended = await store.update(c, c.version, { state: 'failed' });
    await store.update(a, a.version, { message: 'later' });
    await store.remove(ended);
    await eventually(async () => {
      const { items } = await store.changes({ since: cursor, limit: 100 });
      assert.deepEqual(
        items.map(({ key, record }) => `${key.id} ${record?.message ?? 'gone'}`),
        ['cow-b ', 'cow-a later', 'cow-c gone'],
      );
    });
    const [first, second] = await readPages(store, cursor, 2);
    assert.deepEqual(first, ['cow-b', 'cow-a']);
    assert.deepEqual(second, ['cow-c']);
  });

  test('changes: a job that was removed and accepted again is reported with its new record', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'), FINISHED);
    const follower = await Follower.from(store, 10);
    await store.remove(made);
    const again = await accepted(store, sampleJob('a'));
    await follower.sees({ 'cow/cow-a': again.version });
    await store.removeService(again.serviceUid);
    await follower.sees({ 'cow/cow-a': undefined });
  });

  test('changes: jobs removed with their service or by expiry are reported', async (t) => {
    const store = await start(t);
    await accepted(store, sampleJob('running'), sampleProgress('running'));
    await accepted(store, storageJob('old', { serviceUid: 'other' }), FINISHED);
    const follower = await Follower.from(store, 10);
    await store.expire(Number.MAX_SAFE_INTEGER, 10);
    await store.removeService('uid-of-cow');
    await follower.sees({ 'cow/cow-old': undefined, 'cow/cow-running': undefined });
  });

  test('changes: a query for one service reports that service only, and its cursor can be continued', async (t) => {
    const store = await start(t);
    const follower = await Follower.from(store, 1, 'dog');
    const dog = await accepted(store, sampleJob('a', { service: 'dog' }));
    await acceptedInTurn(store, ['a', 'b', 'c']);
    const goes = await accepted(store, sampleJob('b'.repeat(3), { service: 'dog' }), FINISHED);
    const other = await accepted(store, sampleJob('gone'), FINISHED);
    await store.remove(goes);
    await store.remove(other);
    await follower.sees({ 'dog/dog-a': dog.version, 'dog/dog-bbb': undefined });
  });

  test('changes: a rejected write is not reported', async (t) => {
    const store = await start(t);
    const made = await accepted(store, sampleJob('a'));
    const other = await accepted(store, sampleJob('b'));
    const follower = await Follower.from(store, 10);
    await store.accept(made, sampleProgress('failed'), new Uint8Array());
    await assert.rejects(store.update(made, other.version, { state: 'failed' }), { code: 'conflict' });
    await assert.rejects(store.remove(made), { code: 'conflict' });
    const last = await accepted(store, sampleJob('last'));
    await follower.sees({ 'cow/cow-last': last.version });
  });

  test('changes: an invalid cursor is rejected as expired', async (t) => {
    const store = await start(t);
    await accepted(store, sampleJob('a'));
    for (const cursor of ['', 'nonsense', '🐄']) {
      await assert.rejects(store.changes({ since: cursor as Cursor, limit: 1 }), { code: 'expired' });
    }
  });

  describeOnChange(start);
}

function describeOnChange(start: StartJobs): void {
  test('onChange: a listener is called after every kind of change', async (t) => {
    const store = await start(t);
    const called = listen(store, t);
    const made = await called(() => accepted(store, storageJob('a')));
    const ended = await called(() => store.update(made, made.version, FINISHED));
    await called(() => store.remove(ended));
    await called(() => accepted(store, sampleJob('b'), FINISHED));
    await called(() => store.expire(Number.MAX_SAFE_INTEGER, 10));
    await called(() => accepted(store, sampleJob('c')));
    await called(() => store.removeService('uid-of-cow'));
  });

  test('onChange: a listener can read the change when it is called', async (t) => {
    const store = await start(t);
    const { promise, resolve } = Promise.withResolvers<void>();
    t.after(
      store.onChange(() => {
        void store.get(sampleJob('a')).then((record) => record && resolve());
      }),
    );
    await accepted(store, sampleJob('a'));
    await promise;
  });

  test('onChange: an unsubscribed listener is not called, and the other listeners are', async (t) => {
    const store = await start(t);
    let calls = 0;
    const listener = () => {
      calls += 1;
    };
    const endFirst = store.onChange(listener);
    const endSecond = store.onChange(listener);
    endFirst();
    endFirst();
    const called = listen(store, t);
    await called(() => accepted(store, sampleJob('a')));
    await eventually(() => assert.ok(calls > 0, 'the other listener is still called'));
    endSecond();
    const before = calls;
    await called(() => accepted(store, sampleJob('b')));
    assert.equal(calls, before);
  });
}

/** Polls for changes from its last cursor, as every consumer does. */
class Follower {
  readonly #store: JobStore;
  readonly #query: { limit: number; service?: string };
  readonly #view = new Map<string, Version | undefined>();
  #since: Cursor;

  private constructor(store: JobStore, query: { limit: number; service?: string }, since: Cursor) {
    this.#store = store;
    this.#query = query;
    this.#since = since;
  }

  static async from(store: JobStore, limit: number, service?: string): Promise<Follower> {
    const query = { limit, ...(service !== undefined && { service }) };
    return new Follower(store, query, (await store.changes(query)).cursor);
  }

  /** Waits until exactly these changes were reported. */
  async sees(expected: Record<string, Version | undefined>): Promise<void> {
    await eventually(async () => {
      await this.#follow();
      assert.deepEqual(Object.fromEntries(this.#view), expected);
    });
  }

  async #follow(): Promise<void> {
    for (;;) {
      const { items, cursor } = await this.#store.changes({ ...this.#query, since: this.#since });
      assert.ok(items.length <= this.#query.limit);
      const keys = items.map(({ key }) => `${key.service}/${key.id}`);
      assert.equal(new Set(keys).size, keys.length, 'a job is reported twice in one page');
      for (const { key, record } of items) {
        if (record) assert.deepEqual([record.service, record.id], [key.service, key.id]);
        this.#view.set(`${key.service}/${key.id}`, record?.version);
      }
      this.#since = cursor;
      if (items.length === 0) return;
    }
  }
}

async function readPages(store: JobStore, since: Cursor, limit: number): Promise<string[][]> {
  const pages: string[][] = [];
  for (let cursor = since; ; ) {
    const page = await store.changes({ since: cursor, limit });
    if (page.items.length === 0) return pages;
    pages.push(page.items.map(({ key }) => key.id));
    cursor = page.cursor;
  }
}

/** Returns a function that makes a change and waits until a listener was called. */
function listen(store: JobStore, t: TestContext): <T>(change: () => Promise<T>) => Promise<T> {
  let calls = 0;
  t.after(
    store.onChange(() => {
      calls += 1;
    }),
  );
  return async (change) => {
    const before = calls;
    const result = await change();
    await eventually(() => assert.ok(calls > before, 'the listener was not called'));
    return result;
  };
}
