import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  closeTombstone,
  expireTombstones,
  forgetEndedWorker,
  openTombstones,
  readTombstone,
  rememberEndedWorker,
  wasEnded,
  writeTombstone,
} from './tombstones.ts';
import { openScene } from './workers.fixture.ts';

const DAY = 24 * 60 * 60_000;
const KEY = 'a'.repeat(64);
const undone = { service: 'demo', reason: 'ended-by-coordinator', ending: 'undo' } as const;

test('tombstones: a tombstone expires after seven days', async () => {
  await using scene = openScene();
  await writeTombstone(KEY, undone, scene.catalog);
  await closeTombstone(KEY, scene.catalog);
  await rememberEndedWorker('uid', 'demo', scene.catalog);
  scene.clock.now += 7 * DAY - 1;
  assert.equal(await expireTombstones(scene.catalog), 0);
  assert.ok(await readTombstone(KEY, scene.catalog));
  assert.ok(await wasEnded('uid', 'demo', scene.catalog));
  scene.clock.now += 1;
  assert.equal(await expireTombstones(scene.catalog), 2);
  assert.equal(await readTombstone(KEY, scene.catalog), undefined);
  assert.equal(await wasEnded('uid', 'demo', scene.catalog), false);
});

test('tombstones: a tombstone with unfinished work does not expire, and says what is left to do', async () => {
  await using scene = openScene();
  await writeTombstone(KEY, undone, scene.catalog);
  scene.clock.now += 8 * DAY;
  assert.equal(await expireTombstones(scene.catalog), 0);
  const open = await Array.fromAsync(openTombstones(scene.clock.now, scene.catalog));
  assert.deepEqual(open, [{ keyId: KEY, service: 'demo', ending: 'undo' }]);
  assert.deepEqual(await Array.fromAsync(openTombstones(scene.clock.now - 9 * DAY, scene.catalog)), []);
  await closeTombstone(KEY, scene.catalog);
  assert.deepEqual(await Array.fromAsync(openTombstones(scene.clock.now, scene.catalog)), []);
});

test('tombstones: those of unknown keys expire after an hour, and there are at most a thousand', async () => {
  await using scene = openScene();
  const stray = { ...undone, stray: true };
  const leave = async (first: number, count: number) => {
    const keys = Array.from({ length: count }, (_, index) => (first + index).toString(16).padStart(64, '0'));
    await Promise.all(keys.map((key) => writeTombstone(key, stray, scene.catalog)));
    await Promise.all(keys.map((key) => closeTombstone(key, scene.catalog)));
  };
  await leave(0, 1_000);
  await assert.rejects(leave(1_000, 1), { code: 'contended' });
  await leave(7, 1);
  assert.ok(await readTombstone('0'.repeat(64), scene.catalog), 'the first is not given up for others');
  await writeTombstone(KEY, undone, scene.catalog);
  await closeTombstone(KEY, scene.catalog);
  scene.clock.now += DAY / 24;
  assert.equal(await expireTombstones(scene.catalog), 1_000);
  await leave(1_000, 1);
  assert.ok(await readTombstone(KEY, scene.catalog), 'one of a key that opened something stays');
});

test('tombstones: ending a key again keeps its one tombstone, with the first reason and mode', async () => {
  await using scene = openScene();
  await writeTombstone(KEY, { service: 'demo', reason: 'removed-by-owner', ending: 'undo' }, scene.catalog);
  const first = await readTombstone(KEY, scene.catalog);
  scene.clock.now += DAY;
  await Promise.all([1, 2, 3].map(() => writeTombstone(KEY, undone, scene.catalog)));
  const { reason, until } = (await readTombstone(KEY, scene.catalog)) ?? {};
  assert.deepEqual({ reason, until }, { reason: 'removed-by-owner', until: first?.until });
});

test('tombstones: a name that is used by a worker again is no longer answered as gone', async () => {
  await using scene = openScene();
  await rememberEndedWorker('uid', 'demo', scene.catalog);
  await forgetEndedWorker('uid', 'demo', scene.catalog);
  await forgetEndedWorker('uid', 'demo', scene.catalog);
  assert.equal(await wasEnded('uid', 'demo', scene.catalog), false);
});
