import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSettled } from './concurrency.ts';

test('all have their turn, one after the other, and those are counted for whom something was done', async () => {
  const turns: string[] = [];
  const work = async (name: string) => {
    turns.push(name);
    await new Promise(setImmediate);
    turns.push(name);
    return name !== 'b';
  };
  assert.equal(await forEachSettled(['a', 'b', 'c'], work), 2);
  assert.deepEqual(turns, ['a', 'a', 'b', 'b', 'c', 'c']);
});

test('one that fails keeps no other from it, and the first problem is thrown', async () => {
  const done: string[] = [];
  const work = async (name: string) => {
    if (name !== 'c') throw new Error(name);
    done.push(name);
  };
  await assert.rejects(forEachSettled(['a', 'b', 'c'], work), /^Error: a$/);
  assert.deepEqual(done, ['c']);
});
