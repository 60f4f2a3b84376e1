import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { CreateMultipartUploadCommand, ListBucketsCommand, UploadPartCommand } from '@aws-sdk/client-s3';
import { everyBucket } from '../../buckets/index.ts';
import type { ObjectStore } from '../object-store.ts';
import { bucket, type Cannot, keysOf, type StoreUnderTest, storeClient } from './object-store-under-test.fixture.ts';

/** The guarantees of every object store for staged objects and for placing them (`object-store.ts`). */
export function describeStaging(name: string, start: () => Promise<StoreUnderTest>, cannot: Cannot): void {
  describe(`${name} as an ObjectStore: staging`, () => {
    let under: StoreUnderTest;
    let store: ObjectStore;
    before(async () => {
      under = await start();
      store = under.store;
      await store.ensureStaging();
      if (under.operator) return;
      for (const uid of ['alice', 'bob']) await store.putUser(uid, keysOf(uid));
    });
    after(() => under.close());

    const alice = () => storeClient(under, under.operator ?? keysOf('alice'));
    const needs = (trait: keyof Cannot) => ({ skip: cannot[trait] ?? false });
    const unquotedETag = ({ ETag }: { ETag?: string | undefined }) => (ETag ?? '').replaceAll('"', '');

    /** A client with the rights of a target cluster: it may write and read below this prefix of the staging bucket. */
    const stager = async (prefix: string) => {
      if (cannot['job keys'] && under.operator) return storeClient(under, under.operator);
      const below = [{ bucket: store.stagingBucket, prefix }];
      return storeClient(under, await store.issue({ read: [], readUnder: below, write: below }, 900, 'alice'));
    };

    const staged = async (key: string, content: string | Uint8Array = 'result') => {
      const client = await stager(key);
      const eTag = unquotedETag(await client.put(store.stagingBucket, key, content, { ContentType: 'text/x-test' }));
      return { bucket: store.stagingBucket, key, eTag };
    };

    test('bucket: ensureStaging can be repeated, and the staging bucket is listed for no user', async () => {
      await store.ensureStaging();
      assert.equal(await store.bucket(store.stagingBucket), undefined);
      for (const query of [{}, { visibleTo: 'alice' }, { visibleTo: 'cluster_admin' }]) {
        const names = (await Array.fromAsync(everyBucket(store, query))).map((each) => each.name);
        assert.ok(!names.includes(store.stagingBucket));
      }
    });

    test('bucket: users neither see the staging bucket nor write to it', needs('users'), async () => {
      // Some stores reject ListBuckets of a user without any bucket.
      await store.createBucket(bucket('beside-b'));
      const { Buckets = [] } = await alice().client.send(new ListBucketsCommand({}));
      assert.ok(!Buckets.some(({ Name }) => Name === store.stagingBucket));
      await assert.rejects(alice().put(store.stagingBucket, 'k'));
    });

    test('keys: keys for a prefix write and read below it, and nowhere else', needs('job keys'), async () => {
      await staged('other/1/out');
      const client = await stager('svc/job-1/1/');
      await client.put(store.stagingBucket, 'svc/job-1/1/files/a*b', 'hello');
      assert.equal((await client.head(store.stagingBucket, 'svc/job-1/1/files/a*b')).ContentLength, 5);
      await assert.rejects(client.head(store.stagingBucket, 'other/1/out'));
      await assert.rejects(client.put(store.stagingBucket, 'svc/job-1/2/files/a'));
      await assert.rejects(client.put(store.stagingBucket, 'svc/job-1/1'));
    });

    test('keys: no character of a prefix is a wildcard', needs('job keys'), async () => {
      await staged('any/thing');
      if (under.refusesPatterns) return assert.rejects(stager('any*'), { code: 'conflict' });
      const client = await stager('any*');
      await assert.rejects(client.head(store.stagingBucket, 'any/thing'));
    });

    test('read: returns the whole object, or rejects one that is too large', async () => {
      const bytes = randomBytes(300_000);
      const { key } = await staged('read/large', bytes);
      assert.ok(bytes.equals((await store.read(store.stagingBucket, key, 300_000)) ?? Buffer.of()));
      await assert.rejects(store.read(store.stagingBucket, key, 299_999), { code: 'too-large' });
      await staged('read/empty', Buffer.alloc(0));
      assert.equal((await store.read(store.stagingBucket, 'read/empty', 0))?.length, 0);
      assert.equal(await store.read(store.stagingBucket, 'read/none', 10), undefined);
      assert.equal(await store.read('no-such-bucket', 'k', 10), undefined);
    });

    test('place: copies the staged object, adds the mark, and causes one event in the name of the principal', async () => {
      await store.createBucket(bucket('place-b'));
      await store.subscribe({ bucket: 'place-b', prefix: 'out/', subscriber: 'u1' });
      const from = await staged('place/ä b');
      const to = { bucket: 'place-b', key: 'out/ä b' };
      assert.equal(await store.place(from, to, { mark: 'job-1/1', as: 'bob' }), 'placed');
      const found = await alice().get(to.bucket, to.key);
      assert.equal(await found.Body?.transformToString(), 'result');
      assert.deepEqual(found.Metadata, { 'oscar-attempt': 'job-1/1' });
      assert.deepEqual([found.ContentType, unquotedETag(found)], ['text/x-test', from.eTag]);
      assert.equal(found.TagCount, undefined);
      assert.deepEqual(await under.reported('place-b'), [{ key: 'out/ä b', principal: under.writesAs ?? 'bob' }]);

      assert.equal(await store.place(from, to, { mark: 'job-1/1', as: 'bob' }), 'there');
      assert.equal((await under.reported('place-b')).length, 1);
      assert.equal(await store.place(from, to, { mark: 'job-1/2', as: 'bob' }), 'placed');
      assert.equal((await under.reported('place-b')).length, 2);
    });

    test('place: an object is placed once, even if it is replaced or removed later', async () => {
      await store.createBucket(bucket('again-b'));
      await store.subscribe({ bucket: 'again-b', prefix: '', subscriber: 'u1' });
      const by = { mark: 'job-1/1', as: 'alice' };
      const from = await staged('again/x');
      for (const key of ['replaced', 'removed', 'kept']) {
        assert.equal(await store.place(from, { bucket: 'again-b', key }, by), 'placed');
      }
      await alice().put('again-b', 'replaced', 'of a later job');
      await store.removeObjects('again-b', 'removed');
      for (const key of ['replaced', 'removed', 'kept']) {
        assert.equal(await store.place(from, { bucket: 'again-b', key }, by), 'there');
      }
      assert.equal(Buffer.from((await store.read('again-b', 'replaced', 99)) ?? '').toString(), 'of a later job');
      assert.equal(await store.read('again-b', 'removed', 99), undefined);
      assert.deepEqual(
        (await under.reported('again-b')).map(({ key }) => key),
        ['replaced', 'removed', 'kept', 'replaced'],
      );
      await store.removeObjects(store.stagingBucket, 'again/');
      assert.equal(await store.place(from, { bucket: 'again-b', key: 'kept' }, by), 'there');
      assert.equal(await store.place(from, { bucket: 'again-b', key: 'removed' }, by), 'missing');
    });

    test('place: of concurrent calls, one places the object', async () => {
      await store.createBucket(bucket('many-b'));
      await store.subscribe({ bucket: 'many-b', prefix: '', subscriber: 'u1' });
      const from = await staged('many/x');
      const to = { bucket: 'many-b', key: 'x' };
      const outcomes = await Promise.all(
        Array.from({ length: 8 }, () => store.place(from, to, { mark: 'job-1/1', as: 'alice' })),
      );
      assert.deepEqual(outcomes.map(String).toSorted(), ['placed', ...Array.from({ length: 7 }, () => 'there')]);
      assert.equal((await under.reported('many-b')).length, 1);
    });

    test('place: a missing or changed source, a missing bucket or a full bucket is reported, and nothing is placed', async () => {
      await store.createBucket(bucket('wrong-b'));
      const by = { mark: 'job-1/1', as: 'alice' };
      const to = { bucket: 'wrong-b', key: 'x' };
      const from = await staged('wrong/x');
      assert.equal(await store.place({ ...from, key: 'wrong/y' }, to, by), 'missing');
      assert.equal(await store.place(from, { ...to, bucket: 'no-such-b' }, by), 'no-bucket');
      await staged('wrong/x', 'something else');
      assert.equal(await store.place(from, to, by), 'changed');
      if (!cannot.quotas) {
        await store.changeBucket('wrong-b', { quota: 3 });
        assert.equal(await store.place(await staged('wrong/z'), to, by), 'full');
      }
      assert.deepEqual((await store.objects('wrong-b', { limit: 9 })).items, []);
    });

    test('place: with an input label, an object with another label or none is not replaced', async () => {
      await store.createBucket(bucket('label-b'));
      const mine = { as: 'alice', inputLabel: 'input-1' };
      const to = (key: string) => ({ bucket: 'label-b', key });
      const read = async (key: string) => Buffer.from((await store.read('label-b', key, 99)) ?? '').toString();
      const [first, second] = [await staged('label/1', 'first'), await staged('label/2', 'second')];
      assert.equal(await store.place(first, to('a'), { ...mine, mark: 'job-1/1' }), 'placed');
      assert.deepEqual(await store.labels(to('a')), { attempt: 'job-1/1', inputLabel: 'input-1' });
      assert.equal(await store.labels(to('none')), undefined);
      const other = { as: 'alice', inputLabel: 'input-2', mark: 'job-2/1' };
      assert.equal(await store.place(second, to('a'), other), 'conflict');
      await alice().put('label-b', 'of-a-user', 'by hand');
      assert.equal(await store.place(second, to('of-a-user'), other), 'conflict');
      assert.deepEqual([await read('a'), await read('of-a-user')], ['first', 'by hand']);

      assert.equal(await store.place(second, to('a'), { ...mine, mark: 'job-3/1' }), 'placed');
      assert.equal(await read('a'), 'second');
      assert.equal(await store.place(first, to('a'), { as: 'alice', mark: 'job-4/1' }), 'placed');
      assert.deepEqual(await store.labels(to('a')), { attempt: 'job-4/1', inputLabel: undefined });
    });

    test('place: of concurrent calls with different input labels, one places its object', async () => {
      await store.createBucket(bucket('rivals-b'));
      const to = { bucket: 'rivals-b', key: 'x' };
      const sources = await Promise.all([0, 1, 2, 3, 4, 5].map((i) => staged(`rivals/${i}`, `of ${i}`)));
      const outcomes = await Promise.all(
        sources.map((from, i) => store.place(from, to, { mark: `job-${i}/1`, as: 'alice', inputLabel: `input-${i}` })),
      );
      assert.deepEqual(outcomes.map(String).toSorted(), [...Array.from({ length: 5 }, () => 'conflict'), 'placed']);
      const content = Buffer.from((await store.read('rivals-b', 'x', 99)) ?? '').toString();
      assert.equal(content, `of ${outcomes.indexOf('placed')}`);
    });

    test('place: a key that conflicts with existing keys is placed, or refused with the reason of the store', async () => {
      await store.createBucket(bucket('beside-b2'));
      const by = { mark: 'job-1/1', as: 'alice' };
      const from = await staged('names/x');
      for (const key of ['a', 'b/c']) await alice().put('beside-b2', key);
      for (const key of ['a/b', 'b', 'long/'.repeat(205)]) {
        const placed = await store.place(from, { bucket: 'beside-b2', key }, by);
        if (typeof placed === 'object') assert.match(placed.refused, /\S/);
        else assert.equal(placed, 'placed', key);
      }
    });

    test('removeObjects: removes everything below a prefix, incomplete uploads too, and nothing else', async () => {
      for (const key of ['sweep/1/a', 'sweep/1/b/c', 'sweep/10/a']) await staged(key);
      const { client } = await stager('sweep/');
      const at = { Bucket: store.stagingBucket, Key: 'sweep/1/large' };
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
      await client.send(new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: randomBytes(5 * 1024 * 1024) }));
      await store.removeObjects(store.stagingBucket, 'sweep/1/');
      await store.removeObjects(store.stagingBucket, 'sweep/1/');
      await store.removeObjects('no-such-bucket', 'sweep/1/');
      const { items } = await store.objects(store.stagingBucket, { prefix: 'sweep/', limit: 9 });
      assert.deepEqual(
        items.map(({ key }) => key),
        ['sweep/10/a'],
      );
      const more = { ...at, UploadId, PartNumber: 2, Body: 'x' };
      await assert.rejects(client.send(new UploadPartCommand(more)), { name: 'NoSuchUpload' });
    });
  });
}
