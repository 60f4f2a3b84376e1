import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Seal } from '../../lib/secret.ts';
import type { Cursor } from '../../lib/version.ts';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import { created } from '../../ports/conformance/service-store-under-test.ts';
import { listAllPages, visibleTo, visibleToAll } from '../../ports/index.ts';
import { Database } from './database.ts';
import { type CacheLimits, LIST_ALL, LIST_TERM, LocalServiceStore } from './local-service-store.ts';

function open(t: TestContext, cache?: CacheLimits) {
  const database = new Database(join(temporaryDirectory(t), 'test.db'));
  t.after(() => database.close());
  const clock = { now: 1_000_000 };
  const seal = new Seal(randomBytes(32));
  const store = new LocalServiceStore(database, seal, { now: () => clock.now, ...(cache && { cache }) });
  return { database, store, clock };
}

test('cache: an unchanged service is the same object each time', async (t) => {
  const { store } = open(t);
  const written = await created(store, sampleService('cow'));
  assert.equal(await store.get('cow'), written);
  assert.equal((await store.list({})).items[0], written);
  assert.equal((await store.list({ anyOf: [visibleTo('alice')] })).items[0], written);
  const replaced = await store.replace(written.service, written.version);
  assert.notEqual(replaced, written);
  assert.equal(await store.get('cow'), replaced);
});

test('cache: an evicted service is read again, and is equal', async (t) => {
  const { store } = open(t, { records: 2, characters: 1_000_000 });
  const written = await created(store, sampleService('cow', { definition: { labels: { a: 'b' } } }));
  for (const name of ['dog', 'cat']) await created(store, sampleService(name));
  const read = await store.get('cow');
  assert.ok(read);
  assert.notEqual(read, written);
  assert.deepEqual(read, written);
  assert.ok([read, read.service, read.service.definition, read.service.definition.labels].every(Object.isFrozen));
});

test('cache: a failed write leaves the cache unchanged', async (t) => {
  const { store } = open(t);
  const written = await created(store, sampleService('cow'));
  const other = await created(store, sampleService('dog'));
  await assert.rejects(store.replace(sampleService('cow'), other.version), { code: 'conflict' });
  await assert.rejects(store.remove('cow', other.version), { code: 'conflict' });
  assert.equal(await store.get('cow'), written);
});

test('create: changes that the caller makes to its arguments after the call are not stored', async (t) => {
  const { store } = open(t);
  const labels: Record<string, string> = { a: 'before' };
  const reservation = { name: 'cow', uid: 'uid-of-cow' };
  await store.reserve('cow', 'uid-of-cow');
  const creating = store.create(reservation, sampleService('cow', { definition: { labels } }));
  labels['a'] = 'after';
  assert.deepEqual((await creating).service.definition.labels, { a: 'before' });
});

test('reserve: a reservation expires although the clock was set back', async (t) => {
  const { store, clock } = open(t);
  await store.reserve('cow', 'u1');
  clock.now -= 10_000;
  assert.equal(await store.reserve('cow', 'u2'), 'taken');
  clock.now -= 60_000;
  assert.deepEqual(await store.reserve('cow', 'u3'), { name: 'cow', uid: 'u3' });
});

test('list: a cursor of another store has expired', async (t) => {
  const { store } = open(t);
  for (const cursor of ['', 'nonsense', '🐄']) {
    await assert.rejects(store.list({ cursor: cursor as Cursor }), { code: 'expired', message: /list again/ });
  }
});

test('list: a page has 500 records by default, and at least one', async (t) => {
  const { store } = open(t);
  const names = Array.from({ length: 501 }, (_, n) => `cow-${n}`);
  await Promise.all(names.map((name) => created(store, sampleService(name))));
  assert.equal((await store.list({})).items.length, 500);
  assert.equal((await store.list({ anyOf: [visibleTo('alice'), visibleToAll] })).items.length, 500);
  assert.equal((await store.list({ limit: 0 })).items.length, 1);
});

test('list: names outside the basic multilingual plane are merged in the order of the database', async (t) => {
  const { store } = open(t);
  const names = ['a', 'a\ue000', 'a\uffff', 'a\u{10000}', 'a\u{10ffff}', 'b'];
  const owners = ['alice', 'bob', 'alice', 'bob', 'alice', 'bob'];
  for (const [n, name] of names.entries()) await created(store, sampleService(name, { owner: owners[n] ?? '' }));
  const anyOf = [visibleTo('alice'), visibleTo('bob')];
  for (const query of [{}, { anyOf }]) {
    const pages = await listAllPages((cursor) => store.list({ ...query, limit: 2, ...(cursor && { cursor }) }));
    assert.deepEqual(
      pages.flat().map(({ service }) => service.definition.name),
      names,
    );
  }
});

for (const [name, sql] of Object.entries({ all: LIST_ALL, 'those under a term': LIST_TERM })) {
  test(`query plan: listing ${name} reads an index in its order from the cursor on, and no definitions`, (t) => {
    const { database } = open(t);
    const plan = database.query<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all();
    assert.equal(plan.length, 1);
    const index = sql === LIST_ALL ? 'USING COVERING INDEX services_by_place' : 'USING PRIMARY KEY';
    assert.match(plan[0]?.detail ?? '', new RegExp(`^SEARCH .* ${index} \\(.*place>\\?`));
  });
}
