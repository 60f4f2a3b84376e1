import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  closeTombstone,
  expireTombstones,
  forgetEndedWorker,
  isRegistered,
  openTombstones,
  readTombstone,
  registerKey,
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

test('tombstones: those of announced keys without a worker expire after an hour, as the announcements do', async () => {
  await using scene = openScene({ announced: false });
  await registerKey(KEY, 'demo', scene.catalog);
  await writeTombstone(KEY, { ...undone, stray: true }, scene.catalog);
  await closeTombstone(KEY, scene.catalog);
  assert.ok(await isRegistered(KEY, scene.catalog));
  scene.clock.now += DAY / 24 - 1;
  assert.equal(await expireTombstones(scene.catalog), 0);
  scene.clock.now += 1;
  assert.equal(await isRegistered(KEY, scene.catalog), false);
  assert.equal(await expireTombstones(scene.catalog), 2);
  assert.equal(await readTombstone(KEY, scene.catalog), undefined);
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
