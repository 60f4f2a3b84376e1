import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DiskFiller, diskTest, MIB } from '../../test/support/small-disk.ts';
import { DiskSpace, defaultDiskFloor, type LowSpace } from './disk-space.ts';

const GIB = 1024 * MIB;

const floors: readonly [name: string, total: number, floor: number][] = [
  ['a small disk keeps a tenth', 100 * MIB, 10 * MIB],
  ['a disk of 10 GiB keeps 256 MiB', 10 * GIB, 256 * MIB],
  ['a disk of 100 GiB keeps 1 %', 100 * GIB, GIB],
  ['a large disk keeps 4 GiB', 10_000 * GIB, 4 * GIB],
];
for (const [name, total, floor] of floors) {
  test(`disk floor: ${name}`, () => assert.equal(defaultDiskFloor(total), floor));
}

diskTest('disk space: a shortage is reported when it begins and when it ends, and not in between', async ({ path }) => {
  const reports: (LowSpace | undefined)[] = [];
  const disk = new DiskSpace({ floor: 10 * MIB, report: (low) => reports.push(low), checkEvery: 600_000 });
  let changes = 0;
  const unsubscribe = disk.onChange(() => changes++);
  await disk.watch(path);
  assert.equal(disk.shortage, undefined);
  const filler = new DiskFiller(path);
  filler.fillBut(10 * MIB);
  await disk.check();
  assert.equal(disk.shortage, undefined, 'the floor itself is enough');
  filler.fillBut(9 * MIB);
  await disk.check();
  await disk.check();
  assert.match(disk.shortage ?? '', /^the disk of this cluster is almost full \(9 MiB left\): delete /);
  assert.deepEqual([reports, changes], [[{ directory: path, free: 9 * MIB, floor: 10 * MIB }], 1]);
  filler.remove();
  filler.fillBut(10.5 * MIB);
  await disk.check();
  assert.notEqual(disk.shortage, undefined, 'it ends with a margin above the floor');
  filler.remove();
  await disk.check();
  assert.deepEqual([disk.shortage, reports.at(-1), changes], [undefined, undefined, 2]);
  unsubscribe();
  filler.fillBut(0);
  await disk.check();
  assert.equal(changes, 2);
  disk.close();
});

diskTest('disk space: it notices a shortage by itself, and a floor of 0 turns it off', async ({ path }) => {
  const [watched, off] = [new DiskSpace({ checkEvery: 10 }), new DiskSpace({ floor: 0, checkEvery: 10 })];
  await Promise.all([watched.watch(path), off.watch(path)]);
  const noticed = new Promise<void>((resolve) => watched.onChange(resolve));
  // The timer does not keep the process alive.
  const alive = setInterval(() => undefined, 1_000);
  new DiskFiller(path).fillBut(MIB);
  await noticed;
  clearInterval(alive);
  await off.check();
  assert.deepEqual([watched.shortage === undefined, off.shortage], [false, undefined]);
  for (const disk of [watched, off]) disk.close();
});

test('disk space: a directory that cannot be read is no shortage', async () => {
  const disk = new DiskSpace({ checkEvery: 600_000 });
  await disk.watch('/nowhere/at/all');
  assert.equal(disk.shortage, undefined);
  disk.close();
});
