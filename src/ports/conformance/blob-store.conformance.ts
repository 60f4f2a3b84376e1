import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import type { Cursor } from '../../lib/version.ts';
import type { BlobEntry, BlobStore } from '../blob-store.ts';

export interface BlobStoreUnderTest {
  readonly blobs: BlobStore;
  close(): Promise<void>;
}

const large = Uint8Array.from({ length: 3 * 2 ** 20 }, (_, n) => (n * n) % 251);

const SMALL = new Uint8Array([1]);

/** Clocks of stores tell whole seconds, some of them, and may not be ours. */
const CLOCKS_DIFFER_MS = 60_000;

async function entries(shelf: BlobStore): Promise<BlobEntry[]> {
  const all: BlobEntry[] = [];
  for (let cursor: Cursor | undefined; ; ) {
    const { items, next } = await shelf.list(cursor);
    all.push(...items);
    if (next === undefined) return all;
    cursor = next;
  }
}

/** What every shelf does. Each test has its own room there. */
export function describeBlobStore(name: string, open: () => Promise<BlobStoreUnderTest>): void {
  describe(`${name} as a BlobStore`, () => {
    let under: BlobStoreUnderTest;
    let shelf: BlobStore;
    before(async () => {
      under = await open();
      shelf = under.blobs;
    });
    after(() => under.close());

    test('get returns undefined for a blob that was never put', async () => {
      assert.deepEqual(await entries(shelf), []);
      assert.equal(await shelf.get('never/a'), undefined);
      await shelf.remove('never/');
      await shelf.put('never/a', large);
      assert.equal(await shelf.get('never/b'), undefined);
    });

    for (const [what, bytes] of Object.entries({ 'what is large': large, 'what is empty': new Uint8Array() })) {
      test(`${what} comes back byte by byte`, async () => {
        await shelf.put('bytes/a', bytes);
        const stream = await shelf.get('bytes/a');
        assert.ok(stream);
        assert.ok((await buffer(stream)).equals(bytes));
      });
    }

    test('put replaces a blob', async () => {
      await shelf.put('again', large);
      await shelf.put('again', SMALL);
      assert.deepEqual([...(await buffer((await shelf.get('again')) ?? assert.fail()))], [1]);
    });

    test('remove deletes all blobs below a prefix, and no others', async () => {
      for (const key of ['gone/a/1', 'gone/a/2', 'gone/b/1']) await shelf.put(key, SMALL);
      await shelf.remove('gone/a/');
      await shelf.remove('gone/a/');
      assert.equal(await shelf.get('gone/a/1'), undefined);
      assert.equal(await shelf.get('gone/a/2'), undefined);
      assert.ok(await shelf.get('gone/b/1'));
    });

    test('the URLs allow reading and writing that blob only', async () => {
      const put = await shelf.urlToPut('answers/a', 60);
      assert.equal((await fetch(put, { method: 'PUT', body: 'moo' })).status, 200);
      assert.equal((await buffer((await shelf.get('answers/a')) ?? assert.fail())).toString(), 'moo');
      const get = await shelf.urlToGet('answers/a', 60);
      assert.equal(await (await fetch(get)).text(), 'moo');
      assert.equal((await fetch(get.replace('answers/a', 'answers/b'))).status, 403);
      assert.equal((await fetch(get, { method: 'PUT', body: 'x' })).status, 403);
    });

    test('list returns all keys with their times, in pages', async () => {
      const keys = Array.from({ length: 600 }, (_, n) => `many/${String(n).padStart(4, '0')}`);
      const begun = Date.now();
      for (let at = 0; at < keys.length; at += 20) {
        await Promise.all(keys.slice(at, at + 20).map((key) => shelf.put(key, SMALL)));
      }
      const found = (await entries(shelf)).filter(({ key }) => key.startsWith('many/'));
      assert.deepEqual(
        found.map(({ key }) => key),
        keys,
      );
      for (const { putAt } of found) {
        assert.ok(putAt > begun - CLOCKS_DIFFER_MS && putAt < Date.now() + CLOCKS_DIFFER_MS, `put at ${putAt}`);
      }
      await shelf.remove('many/');
      assert.deepEqual(
        (await entries(shelf)).filter(({ key }) => key.startsWith('many/')),
        [],
      );
    });

    test('list rejects an invalid cursor', async () => {
      await assert.rejects(shelf.list('?' as Cursor), { code: 'expired' });
    });
  });
}
