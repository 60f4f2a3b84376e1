import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { STAGING_BUCKET } from './object-store.ts';
import { openShelf } from './shelf.fixture.ts';

async function opened(t: TestContext) {
  const { close, ...rest } = await openShelf();
  t.after(close);
  return rest;
}

const large = Uint8Array.from({ length: 3 * 2 ** 20 }, (_, n) => (n * n) % 251);

for (const [name, bytes] of Object.entries({ 'what is large': large, 'what is empty': new Uint8Array() })) {
  test(`${name} comes back byte by byte`, async (t) => {
    const { shelf } = await opened(t);
    await shelf.put('events/a', bytes);
    const stream = await shelf.get('events/a');
    assert.ok(stream);
    assert.ok((await buffer(stream)).equals(bytes));
  });
}

test('what was never put is not there, also before anything was', async (t) => {
  const { shelf } = await opened(t);
  assert.equal(await shelf.get('events/a'), undefined);
  await shelf.remove('events/');
  await shelf.put('events/a', large);
  assert.equal(await shelf.get('events/b'), undefined);
});

test('what is put again is what is there', async (t) => {
  const { shelf } = await opened(t);
  await shelf.put('a', large);
  await shelf.put('a', new Uint8Array([1]));
  assert.deepEqual([...(await buffer((await shelf.get('a')) ?? assert.fail()))], [1]);
});

test('everything below a prefix goes at once, and nothing else', async (t) => {
  const { shelf } = await opened(t);
  for (const key of ['a/1', 'a/2', 'b/1']) await shelf.put(key, large);
  await shelf.remove('a/');
  await shelf.remove('a/');
  assert.equal(await shelf.get('a/1'), undefined);
  assert.equal(await shelf.get('a/2'), undefined);
  assert.ok(await shelf.get('b/1'));
});

test('whoever has the addresses can write and read that one thing', async (t) => {
  const { shelf } = await opened(t);
  const put = await shelf.urlToPut('answers/a', 60);
  assert.equal((await fetch(put, { method: 'PUT', body: 'moo' })).status, 200);
  assert.equal((await buffer((await shelf.get('answers/a')) ?? assert.fail())).toString(), 'moo');
  const get = await shelf.urlToGet('answers/a', 60);
  assert.equal(await (await fetch(get)).text(), 'moo');
  assert.equal((await fetch(get.replace('answers/a', 'answers/b'))).status, 403);
  assert.equal((await fetch(get, { method: 'PUT', body: 'x' })).status, 403);
});

test('it is a part of the manager’s own bucket, apart from what other clusters stage there', async (t) => {
  const { shelf, store } = await opened(t);
  await shelf.put('events/a', large);
  const { items } = await store.objects(STAGING_BUCKET, { limit: 10 });
  assert.deepEqual(
    items.map(({ key }) => key),
    ['.shelf/events/a'],
  );
});

test('a store that is away is said to be so', async () => {
  const { shelf, close } = await openShelf();
  await shelf.put('a', large);
  await close();
  await assert.rejects(shelf.put('a', large), { code: 'unavailable', message: /did not take 3145728 bytes/ });
});
