import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Seal } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { sampleService } from '../../ports/conformance/sample-service.ts';
import { created } from '../../ports/conformance/service-store-under-test.ts';
import type { ServiceChange, ServiceStore } from '../../ports/index.ts';
import { Database } from './database.ts';
import { LocalServiceStore } from './local-service-store.ts';
import { makeUnreliable } from './unreliable-service-store.fixture.ts';

function open(t: TestContext, seed: number): ServiceStore {
  const database = new Database(join(temporaryDirectory(t), 'test.db'));
  t.after(() => database.close());
  return makeUnreliable(
    new LocalServiceStore(database, new Seal(randomBytes(32)), { now: Date.now }),
    seededRandom(seed),
  );
}

/** Collects all changes of one watch. */
function record(store: ServiceStore, t: TestContext): ServiceChange[] {
  const said: ServiceChange[] = [];
  const abort = new AbortController();
  const changes = store.watch(abort.signal);
  const recording = (async () => {
    for await (const change of changes) said.push(change);
  })();
  t.after(async () => {
    abort.abort();
    await recording;
  });
  return said;
}

test('unreliable store: some of a hundred changes are repeated, and some are dropped but followed by a resync', async (t) => {
  const store = open(t, 1);
  const said = record(store, t);
  const named = (name: string) => said.filter((change) => 'name' in change && change.name === name).length;
  let dropped = 0;
  for (let n = 0; n < 100; n++) {
    const before = said.length;
    await created(store, sampleService(`cow-${n}`));
    await eventually(() =>
      assert.ok(said.slice(before).some(({ kind }) => kind === 'resync') || named(`cow-${n}`) > 0),
    );
    if (named(`cow-${n}`) === 0) dropped += 1;
  }
  const repeated = Array.from({ length: 100 }, (_, n) => named(`cow-${n}`)).filter((times) => times > 1).length;
  assert.ok(dropped > 10 && repeated > 10, `${dropped} dropped, ${repeated} repeated`);
});

test('unreliable store: delayed changes of one name are coalesced', async (t) => {
  const store = open(t, 2);
  const said = record(store, t);
  let { version } = await created(store, sampleService('cow'));
  for (let times = 0; times < 99; times++) ({ version } = await store.replace(sampleService('cow'), version));
  const before = said.length;
  ({ version } = await store.replace(sampleService('cow'), version));
  await eventually(() =>
    assert.ok(said.slice(before).some((change) => !('version' in change) || change.version === version)),
  );
  assert.ok(new Set(said.map((change) => ('version' in change ? change.version : ''))).size < 100);
});

test('unreliable store: lists are sometimes old or without the newest records, get never is', async (t) => {
  const store = open(t, 3);
  let { version } = await created(store, sampleService('a-changes'));
  const seen = { old: 0, incomplete: 0, right: 0 };
  for (let n = 0; n < 100; n++) {
    const newest = await created(store, sampleService(`cow-${n}`));
    ({ version } = await store.replace(sampleService('a-changes'), version));
    assert.equal((await store.get('a-changes'))?.version, version);
    assert.deepEqual(await store.get(`cow-${n}`), newest);
    const { items } = await store.list({});
    if (items.length > 0 && items[0]?.version !== version) seen.old += 1;
    else if (items.length < n + 2) seen.incomplete += 1;
    else seen.right += 1;
  }
  assert.ok(
    Object.values(seen).every((count) => count > 10),
    JSON.stringify(seen),
  );
});

test('unreliable store: a watch gets a resync after an old list', async (t) => {
  const store = open(t, 4);
  await created(store, sampleService('cow'));
  const said = record(store, t);
  for (let times = 0; times < 10; times++) await store.list({});
  await eventually(() => assert.deepEqual(said.at(-1), { kind: 'resync' }));
});

test('unreliable store: the same seed gives the same faults', async (t) => {
  const lists: number[][] = [];
  for (let run = 0; run < 2; run++) {
    const store = open(t, 5);
    const lengths: number[] = [];
    for (let n = 0; n < 30; n++) {
      await created(store, sampleService(`cow-${n}`));
      lengths.push((await store.list({})).items.length);
    }
    lists.push(lengths);
  }
  assert.deepEqual(lists[0], lists[1]);
});
