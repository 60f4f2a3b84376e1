import assert from 'node:assert/strict';
import { test } from 'node:test';
import { listAllPages } from '../cursor.ts';
import { type IndexTerm, labelled, readsBucket, type ServiceStore, visibleTo, visibleToAll } from '../service-store.ts';
import { eventually } from './eventually.ts';
import { revealed, sampleService } from './sample-service.ts';
import { created, type StartStore } from './service-store-under-test.ts';

/** Lists may lag behind, so every test here waits until they have caught up. */
export function describeLists(start: StartStore): void {
  test('list: an empty store returns an empty list', async (t) => {
    const { store } = await start(t);
    await eventually(async () => assert.deepEqual(await names(store), []));
  });

  test('list: returns the same records as get', async (t) => {
    const { store } = await start(t);
    await created(store, sampleService('cow'));
    await eventually(async () => {
      const [listed] = (await store.list({})).items;
      const got = await store.get('cow');
      assert.ok(listed && got);
      assert.equal(listed.version, got.version);
      assert.deepEqual(revealed(listed.service), revealed(got.service));
    });
  });

  test('list: services are sorted by the bytes of namespace/name', async (t) => {
    const { store } = await start(t);
    const namespaces = { a: 'b', z: 'a', c: 'a', y: 'a-b', b: 'a0', 'c-d': 'a', c0: 'a' };
    for (const [name, namespace] of Object.entries(namespaces))
      await created(store, sampleService(name, { namespace }));
    // "-" comes before "/", which comes before digits: a-b/y is ahead of everything in a.
    await eventually(async () => assert.deepEqual(await names(store), ['y', 'c', 'c-d', 'c0', 'z', 'b', 'a']));
  });

  test('list: the pages together are the whole list, and no page exceeds the limit', async (t) => {
    const { store } = await start(t);
    const all = ['c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7'];
    for (const name of all.toReversed()) await created(store, sampleService(name));
    for (const limit of [1, 3, 7, 8]) {
      await eventually(async () => {
        const pages = await listAllPages((cursor) => store.list({ limit, ...(cursor && { cursor }) }));
        assert.deepEqual(pages.flat().map(serviceName), all);
        assert.ok(pages.every((page) => page.length <= limit));
      });
    }
  });

  test('list: a service that exists throughout paging is listed once, while others are created and removed', async (t) => {
    const { store } = await start(t);
    const stay = ['b', 'd', 'f', 'h', 'j'];
    for (const name of [...stay, 'c']) await created(store, sampleService(name));
    let round = 0;
    await eventually(async () => {
      round += 1;
      const pages = await listAllPages(async (cursor) => {
        const page = await store.list({ limit: 2, ...(cursor && { cursor }) });
        for (const name of ['a', 'c', 'g']) await toggle(store, name, `${name}-${round}`);
        return page;
      });
      const listed = pages.flat().map(serviceName);
      assert.deepEqual(
        listed.filter((name) => stay.includes(name)),
        stay,
      );
    });
  });

  test('list: several terms return the union of their services, sorted and without duplicates', async (t) => {
    const { store } = await start(t);
    await created(store, sampleService('c1', { owner: 'alice', definition: { visibility: 'public' } }));
    await created(store, sampleService('c2', { owner: 'bob' }));
    await created(store, sampleService('c3', { owner: 'bob', definition: { visibility: 'public' } }));
    await created(store, sampleService('c4', { owner: 'alice' }));
    await created(store, restricted('c5', 'bob', ['alice', 'carol']));
    const cases: [IndexTerm[], string[]][] = [
      [[visibleTo('alice')], ['c1', 'c4', 'c5']],
      [
        [visibleTo('alice'), visibleToAll],
        ['c1', 'c3', 'c4', 'c5'],
      ],
      [
        [visibleToAll, visibleTo('bob'), visibleTo('alice')],
        ['c1', 'c2', 'c3', 'c4', 'c5'],
      ],
      [
        [visibleToAll, visibleToAll],
        ['c1', 'c3'],
      ],
      [[visibleTo('carol')], ['c5']],
      [[visibleTo('nobody')], []],
      [[], []],
    ];
    for (const [anyOf, expected] of cases) {
      for (const limit of [1, 2, 100]) {
        await eventually(async () => assert.deepEqual(await names(store, { anyOf, limit }), expected));
      }
    }
  });

  test('list: services are found by input bucket and by label, and different terms never collide', async (t) => {
    const { store } = await start(t);
    await created(store, sampleService('c1', { definition: { ...input('meadow/in'), labels: { a: 'b=c' } } }));
    await created(store, sampleService('c2', { definition: { ...input('meadow'), labels: { 'a=b': 'c' } } }));
    await created(store, sampleService('c3', { definition: input('meadow/in', 's3.elsewhere') }));
    await created(store, sampleService('c4', { owner: 'public', definition: { labels: { 'viewer:alice': '' } } }));
    const cases: [IndexTerm, string[]][] = [
      [readsBucket('meadow'), ['c1', 'c2']],
      [readsBucket('mead%'), []],
      [labelled('a', 'b=c'), ['c1']],
      [labelled('a=b', 'c'), ['c2']],
      [visibleToAll, []],
    ];
    for (const [term, expected] of cases) {
      await eventually(async () => assert.deepEqual(await names(store, { anyOf: [term] }), expected));
    }
  });

  test('list: the terms of a service follow its updates and its removal', async (t) => {
    const { store } = await start(t);
    const first = await created(store, restricted('cow', 'alice', ['bob']));
    const second = await store.replace(restricted('cow', 'alice', ['carol']), first.version);
    await eventually(async () => {
      assert.deepEqual(await names(store, { anyOf: [visibleTo('bob')] }), []);
      assert.deepEqual(await names(store, { anyOf: [visibleTo('carol')] }), ['cow']);
    });
    await store.remove('cow', second.version);
    await eventually(async () => assert.deepEqual(await names(store, { anyOf: [visibleTo('carol')] }), []));
  });
}

const serviceName = ({ service }: { service: { definition: { name: string } } }) => service.definition.name;

const input = (path: string, storage_provider = 'minio') => ({ input: [{ storage_provider, path }] });

const restricted = (name: string, owner: string, allowed_users: string[]) =>
  sampleService(name, { owner, definition: { visibility: 'restricted', allowed_users } });

async function names(store: ServiceStore, query: { anyOf?: IndexTerm[]; limit?: number } = {}): Promise<string[]> {
  const pages = await listAllPages((cursor) => store.list({ ...query, ...(cursor && { cursor }) }));
  return pages.flat().map(serviceName);
}

/** Removes the service if it exists, creates it otherwise. */
async function toggle(store: ServiceStore, name: string, uid: string): Promise<void> {
  const record = await store.get(name);
  if (record) await store.remove(name, record.version);
  else await created(store, sampleService(name, { uid }));
}
