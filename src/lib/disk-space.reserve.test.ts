import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { DiskReserve, isDiskFull } from './disk-space.ts';

const MIB = 1024 * 1024;

function openReserve(t: TestContext, path = join(temporaryDirectory(t), 'reserve')) {
  const reserve = new DiskReserve(path);
  t.after(() => reserve.close());
  return { reserve, path, megabytes: () => statSync(path).size / MIB };
}

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-reserve-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test('disk reserve: it is given back in pieces that double, and taken again', (t) => {
  const { reserve, megabytes } = openReserve(t);
  assert.equal(reserve.isEnough, false);
  assert.equal(reserve.refill(), true);
  const sizes = [megabytes()];
  while (reserve.release()) sizes.push(megabytes());
  assert.deepEqual(sizes, [32, 31, 30, 28, 24, 16, 0]);
  assert.equal(reserve.isEnough, false);
  assert.equal(reserve.refill(), true);
  assert.equal(megabytes(), 32);
});

test('disk reserve: what a crash has left of it counts, without half a piece', (t) => {
  const first = openReserve(t);
  first.reserve.refill();
  for (let i = 0; i < 5; i++) first.reserve.release();
  first.reserve.close();
  appendFileSync(first.path, 'half');
  const second = openReserve(t, first.path);
  assert.equal(second.megabytes(), 16);
  assert.equal(second.reserve.isEnough, false);
  assert.equal(second.reserve.refill(), true);
});

test('disk reserve: a directory that cannot be written to is an error, not a full disk', (t) => {
  assert.throws(() => openReserve(t, join(temporaryDirectory(t), 'nowhere', 'reserve')), { code: 'ENOENT' });
  assert.equal(isDiskFull(Object.assign(new Error(), { code: 'ENOENT' })), false);
  assert.equal(isDiskFull(Object.assign(new Error(), { code: 'ENOSPC' })), true);
});
