import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { everyBucket } from '../../buckets/index.ts';
import type { Cursor } from '../../lib/version.ts';
import type { ObjectStore, StoreKeys } from '../object-store.ts';
import { describeStaging } from './object-store-staging.conformance.ts';
import {
  bucket,
  type Cannot,
  keysOf,
  type SomeKeys,
  type StoreUnderTest,
  storeClient,
} from './object-store-under-test.fixture.ts';

/** The guarantees of every object store (`object-store.ts`). */
export function describeObjectStore(name: string, start: () => Promise<StoreUnderTest>, cannot: Cannot = {}): void {
  describe(`${name} as an ObjectStore`, () => {
    let under: StoreUnderTest;
    let store: ObjectStore;
    before(async () => {
      under = await start();
      store = under.store;
    });
    after(() => under.close());

    const keysFor = (uid: string) => under.operator ?? keysOf(uid);
    const addUser = async (uid: string) => {
      if (!under.operator) await store.putUser(uid, keysOf(uid));
    };
    const needs = (trait: keyof Cannot) => ({ skip: cannot[trait] ?? false });
    const client = (keys: SomeKeys) => storeClient(under, keys).client;
    const put = (keys: StoreKeys, Bucket: string, Key: string, Body = 'x') =>
      storeClient(under, keys).put(Bucket, Key, Body);
    const get = (keys: StoreKeys, Bucket: string, Key: string) => storeClient(under, keys).get(Bucket, Key);

    test(
      'putUser: a user authenticates with their keys; new keys revoke the old ones, the same keys change nothing',
      needs('users'),
      async () => {
        await store.putUser('alice', keysOf('alice'));
        await store.createBucket(bucket('users-b'));
        await put(keysOf('alice'), 'users-b', 'k');
        await store.putUser('alice', keysOf('alice'));
        await put(keysOf('alice'), 'users-b', 'k');
        await store.putUser('alice', keysOf('alice', 'another-secret'));
        await assert.rejects(put(keysOf('alice'), 'users-b', 'k'));
        await put(keysOf('alice', 'another-secret'), 'users-b', 'k');
        await store.putUser('alice', keysOf('alice'));
      },
    );

    test('createBucket: an existing bucket is returned unchanged', async () => {
      const madeFor = { uid: 'u1', service: 'svc' };
      assert.equal(await store.createBucket(bucket('made-b', { madeFor })), 'created');
      const again = await store.createBucket(bucket('made-b', { owner: 'bob', visibility: 'public' }));
      assert.ok(again !== 'created');
      assert.deepEqual(again.exists, { ...bucket('made-b', { madeFor }), usage: { bytes: 0, objects: 0 } });
      assert.equal(await store.bucket('no-such-b'), undefined);
    });

    test('createBucket: of concurrent calls, one creates the bucket', async () => {
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, (_, i) => store.createBucket(bucket('race-b', { owner: `u${i}` }))),
      );
      assert.equal(outcomes.filter((outcome) => outcome === 'created').length, 1);
    });

    test('buckets: are listed by name: all, those visible to a user, those created for a service', async () => {
      await store.createBucket(bucket('list-priv', { madeFor: { uid: 'u2', service: 's' } }));
      await store.createBucket(bucket('list-restr', { visibility: 'restricted', allowedUsers: ['bob'] }));
      await store.createBucket(bucket('list-pub', { visibility: 'public' }));
      const names = async (query: Parameters<typeof everyBucket>[1]) =>
        (await Array.fromAsync(everyBucket(store, query)))
          .map((each) => each.name)
          .filter((each) => each.startsWith('list-'));
      assert.deepEqual(await names({}), ['list-priv', 'list-pub', 'list-restr']);
      assert.deepEqual(await names({ visibleTo: 'alice' }), ['list-priv', 'list-pub', 'list-restr']);
      assert.deepEqual(await names({ visibleTo: 'bob' }), ['list-pub', 'list-restr']);
      assert.deepEqual(await names({ visibleTo: 'carol' }), ['list-pub']);
      assert.deepEqual(await names({ madeFor: 'u2' }), ['list-priv']);
    });

    test('changeBucket: the S3 rights of users follow the visibility at once', needs('users'), async () => {
      for (const uid of ['alice', 'bob', 'carol']) await store.putUser(uid, keysOf(uid));
      await store.createBucket(bucket('rights-b'));
      await put(keysOf('alice'), 'rights-b', 'k');
      await assert.rejects(get(keysOf('bob'), 'rights-b', 'k'));
      await store.changeBucket('rights-b', { visibility: 'restricted', allowedUsers: ['bob'] });
      await get(keysOf('bob'), 'rights-b', 'k');
      await assert.rejects(get(keysOf('carol'), 'rights-b', 'k'));
      await store.changeBucket('rights-b', { visibility: 'public', allowedUsers: [] });
      await get(keysOf('carol'), 'rights-b', 'k');
      await store.changeBucket('rights-b', { visibility: 'private' });
      await assert.rejects(get(keysOf('carol'), 'rights-b', 'k'));
      assert.equal((await fetch(`${under.endpoint}/rights-b/k`)).status, 403, 'a request without keys is rejected');
    });

    test('changeBucket: fields that the change does not name stay', async () => {
      await store.createBucket(
        bucket('change-b', { visibility: 'restricted', allowedUsers: ['bob'], madeFor: { uid: 'u', service: 's' } }),
      );
      await store.changeBucket('change-b', { madeFor: null });
      const { usage, ...rest } = (await store.bucket('change-b')) ?? {};
      assert.deepEqual(rest, bucket('change-b', { visibility: 'restricted', allowedUsers: ['bob'] }));
      await assert.rejects(store.changeBucket('no-such-b', { visibility: 'public' }), { code: 'absent' });
    });

    test('bucket: usage counts objects and bytes', async () => {
      await addUser('alice');
      await store.createBucket(bucket('usage-b'));
      await put(keysFor('alice'), 'usage-b', 'k', 'hello');
      assert.deepEqual((await store.bucket('usage-b'))?.usage, { bytes: 5, objects: 1 });
    });

    test('changeBucket: a quota is enforced and reported until it is removed', async () => {
      await addUser('alice');
      await store.createBucket(bucket('quota-b', { visibility: 'public' }));
      if (cannot.quotas) return assert.rejects(store.changeBucket('quota-b', { quota: 8 }), { code: 'conflict' });
      await store.changeBucket('quota-b', { quota: 8 });
      await assert.rejects(put(keysFor('alice'), 'quota-b', 'k', 'far too much'));
      const { usage, ...rest } = (await store.bucket('quota-b')) ?? {};
      assert.deepEqual(rest, { ...bucket('quota-b', { visibility: 'public' }), quota: 8 });
      await store.changeBucket('quota-b', { quota: null });
      assert.equal((await store.bucket('quota-b'))?.quota, undefined);
      await put(keysFor('alice'), 'quota-b', 'k', 'far too much');
    });

    test('removeBucket: removes the bucket with its objects; removing it again is a no-op', async () => {
      await addUser('alice');
      await store.createBucket(bucket('gone-b'));
      await put(keysFor('alice'), 'gone-b', 'k');
      await store.removeBucket('gone-b');
      await store.removeBucket('gone-b');
      assert.equal(await store.bucket('gone-b'), undefined);
      await assert.rejects(get(keysFor('alice'), 'gone-b', 'k'));
      assert.equal(await store.createBucket(bucket('gone-b')), 'created');
      assert.deepEqual((await store.objects('gone-b', { limit: 10 })).items, []);
    });

    test('objects: are listed by key, in pages, with the folders of ensureFolder', async () => {
      await addUser('alice');
      await store.createBucket(bucket('objects-b'));
      await store.ensureFolder('objects-b', 'in');
      await store.ensureFolder('objects-b', 'in');
      for (const key of ['in/b', 'in/a', 'out/ünï &+', 'z']) await put(keysFor('alice'), 'objects-b', key, 'abc');
      const seen: string[] = [];
      let page = await store.objects('objects-b', { limit: 2 });
      seen.push(...page.items.map(({ key }) => key));
      while (page.next !== undefined) {
        page = await store.objects('objects-b', { limit: 2, cursor: page.next });
        seen.push(...page.items.map(({ key }) => key));
      }
      assert.deepEqual(seen, ['in/', 'in/a', 'in/b', 'out/ünï &+', 'z']);
      const { items } = await store.objects('objects-b', { limit: 9, prefix: 'in/a' });
      assert.deepEqual(
        items.map(({ key, bytes, eTag }) => [key, bytes, eTag]),
        [['in/a', 3, '900150983cd24fb0d6963f7d28e17f72']],
      );
      assert.ok(Math.abs((items[0]?.modifiedAt ?? 0) - Date.now()) < 60_000);
      await assert.rejects(store.objects('objects-b', { limit: 2, cursor: '!' as Cursor }), { code: 'expired' });
    });

    test('a store without user keys or job keys declares it, and rejects requests for them', async () => {
      assert.equal(store.noUserKeys !== undefined, cannot.users !== undefined);
      assert.equal((await store.noJobKeys?.()) !== undefined, cannot['job keys'] !== undefined);
      if (cannot.users) await assert.rejects(store.putUser('alice', keysOf('alice')), { code: 'conflict' });
      const scope = { read: [{ bucket: 'no-such-b', key: 'k' }], write: [] };
      if (cannot['job keys']) await assert.rejects(store.issue(scope, 900, 'alice'));
    });

    test('subscribe, unsubscribe: calling them again is a no-op', async () => {
      await store.createBucket(bucket('events-b'));
      const subscription = { bucket: 'events-b', prefix: 'in/', subscriber: 'u1' };
      await store.subscribe(subscription);
      await store.subscribe(subscription);
      await store.subscribe({ ...subscription, subscriber: 'u2' });
      await store.unsubscribe(subscription);
      await store.unsubscribe(subscription);
      await store.unsubscribe({ ...subscription, bucket: 'no-such-b' });
    });

    test('presign: a URL works without keys, for its object and headers only', async () => {
      await store.createBucket(bucket('presign-b'));
      const headers = { 'Content-Type': 'text/plain' };
      const at = { bucket: 'presign-b', key: 'dir/ä b.txt', expiresIn: 60 };
      const up = await store.presign({ method: 'PUT', ...at, headers });
      assert.equal(
        (await fetch(up, { method: 'PUT', headers: { 'Content-Type': 'text/html' }, body: 'x' })).status,
        403,
      );
      assert.equal((await fetch(up, { method: 'PUT', headers, body: 'hello' })).status, 200);
      const down = await store.presign({ method: 'GET', ...at, responseContentType: 'text/csv' });
      const answer = await fetch(down);
      assert.equal(answer.headers.get('content-type'), 'text/csv');
      assert.equal(await answer.text(), 'hello');
      assert.equal((await fetch(down.replace('%20b.txt', '%20c.txt'))).status, 403);
    });

    test('presign: URLs do the steps of a multipart upload, and delete the object', async () => {
      await store.createBucket(bucket('presign-parts-b'));
      const at = { bucket: 'presign-parts-b', key: 'dir/large.bin', expiresIn: 60 };
      const use = async (
        method: 'GET' | 'PUT' | 'POST' | 'DELETE',
        query?: Readonly<Record<string, string>>,
        body?: string,
      ) => {
        const url = await store.presign({ method, ...at, ...(query && { query }) });
        const answer = await fetch(url, { method, ...(body !== undefined && { body }) });
        const text = await answer.text();
        assert.ok(answer.ok, `${method} ${answer.status}: ${text}`);
        return text;
      };
      const created = await use('POST', { uploads: '' });
      const uploadId = /<UploadId>([^<]+)</.exec(created)?.[1] ?? '';
      await use('PUT', { partNumber: '1', uploadId }, 'x'.repeat(5 * 1024 * 1024));
      await use('PUT', { partNumber: '2', uploadId }, 'end');
      const parts = [...(await use('GET', { uploadId })).matchAll(/<ETag>([^<]+)</g)].map(([, eTag]) => eTag);
      assert.equal(parts.length, 2);
      const list = parts.map((eTag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${eTag}</ETag></Part>`);
      await use('POST', { uploadId }, `<CompleteMultipartUpload>${list.join('')}</CompleteMultipartUpload>`);
      const { items } = await store.objects('presign-parts-b', { limit: 10 });
      assert.deepEqual(
        items.map(({ key, bytes }) => [key, bytes]),
        [[at.key, 5 * 1024 * 1024 + 3]],
      );
      await use('DELETE');
      assert.deepEqual((await store.objects('presign-parts-b', { limit: 10 })).items, []);
    });

    for (const inProcess of [false, true]) {
      test(
        `issue: job keys${inProcess ? ' of this process' : ''} allow exactly their scope, until they are revoked`,
        needs('job keys'),
        async () => {
          await addUser('alice');
          await store.createBucket(bucket('jobs-b'));
          for (const key of ['in/a', 'in/b', 'in/*']) await put(keysFor('alice'), 'jobs-b', key);
          const keys = await store.issue(
            { read: [{ bucket: 'jobs-b', key: 'in/a' }], write: [{ bucket: 'jobs-b', prefix: 'out/' }] },
            900,
            'alice',
            { inProcess },
          );
          await get(keys, 'jobs-b', 'in/a');
          await put(keys, 'jobs-b', 'out/x/y');
          await assert.rejects(get(keys, 'jobs-b', 'in/b'));
          await assert.rejects(get(keys, 'jobs-b', 'out/x/y'));
          await assert.rejects(put(keys, 'jobs-b', 'in/a'));
          await assert.rejects(put(keys, 'jobs-b', 'outside'));
          await assert.rejects(client(keys).send(new ListObjectsV2Command({ Bucket: 'jobs-b' })));
          assert.ok(keys.expiresAt.getTime() > Date.now());
          await store.revoke(keys.id);
          if (keys.revocable) await assert.rejects(get(keys, 'jobs-b', 'in/a'));
        },
      );
    }

    test('revokeFor: revokes all keys of one purpose, and no others', needs('job keys'), async () => {
      await addUser('alice');
      await store.createBucket(bucket('purpose-b'));
      await put(keysFor('alice'), 'purpose-b', 'a');
      const scope = { read: [{ bucket: 'purpose-b', key: 'a' }], write: [] };
      const [one, two, other] = await Promise.all(
        ['demo/1', 'demo/1', 'demo/10'].map((purpose) => store.issue(scope, 900, 'alice', { purpose })),
      );
      assert.ok(one && two && other);
      for (const keys of [one, two]) await get(keys, 'purpose-b', 'a');
      await store.revokeFor('demo/1');
      await store.revokeFor('demo/1');
      for (const keys of [one, two]) if (keys.revocable) await assert.rejects(get(keys, 'purpose-b', 'a'));
      await get(other, 'purpose-b', 'a');
    });

    test('issue: no character of an object key is a wildcard', needs('job keys'), async () => {
      await addUser('alice');
      await store.createBucket(bucket('pattern-b'));
      for (const key of ['in/*', 'in/secret', 'in/?', 'in/x', 'in/${*}']) await put(keysFor('alice'), 'pattern-b', key);
      const scope = { read: ['in/*', 'in/?', 'in/${*}'].map((key) => ({ bucket: 'pattern-b', key })), write: [] };
      if (under.refusesPatterns) return assert.rejects(store.issue(scope, 900, 'alice'), { code: 'conflict' });
      const keys = await store.issue(scope, 900, 'alice');
      for (const { key } of scope.read) await get(keys, 'pattern-b', key);
      for (const key of ['in/secret', 'in/x']) await assert.rejects(get(keys, 'pattern-b', key));
    });
  });

  describeStaging(name, start, cannot);
}
