import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StageOut } from '../cluster/index.ts';
import { scratch } from './embedded-store.fixture.ts';
import { assign, plan } from './plan.ts';

const output = (given: Partial<StageOut> = {}): StageOut => ({
  store: 'minio.default',
  bucket: 'out',
  folder: '',
  prefix: [],
  suffix: [],
  ...given,
});

const walked = (...names: string[]) => ({ files: names.map((name) => ({ name, bytes: 1 })), notes: [] });
const keys = (names: string[], ...outputs: StageOut[]) =>
  assign(walked(...names), outputs).files.map(({ to }) => to.key);

test('a file lands in the folder of its output, under its whole relative name', () => {
  assert.deepEqual(keys(['a.txt', 'b/c.txt'], output({ folder: 'results/today' })), [
    'results/today/a.txt',
    'results/today/b/c.txt',
  ]);
  assert.deepEqual(keys(['b/c.txt'], output()), ['b/c.txt']);
});

const filters = [
  { name: 'no filter lets everything through', prefix: [], suffix: [], through: ['a.png', 'b/a.jpg', 'b/c.png'] },
  { name: 'any of the prefixes is enough', prefix: ['a', 'b/c'], suffix: [], through: ['a.png', 'b/c.png'] },
  { name: 'a prefix is one of the relative name, not of the last part', prefix: ['c'], suffix: [], through: [] },
  { name: 'any of the suffixes is enough', prefix: [], suffix: ['x', '.jpg'], through: ['b/a.jpg'] },
  { name: 'prefix and suffix must both fit', prefix: ['b/'], suffix: ['.png'], through: ['b/c.png'] },
];
for (const { name, prefix, suffix, through } of filters) {
  test(name, () => {
    assert.deepEqual(keys(['a.png', 'b/a.jpg', 'b/c.png'], output({ prefix, suffix })), through);
  });
}

test('a file goes to every output that it fits', () => {
  const { files } = assign(walked('a.txt'), [output(), output({ store: 's3.far', bucket: 'other', folder: 'x' })]);
  assert.deepEqual(
    files.map(({ to }) => `${to.store} ${to.bucket} ${to.key}`),
    ['minio.default out a.txt', 's3.far other x/a.txt'],
  );
});

test('two outputs that lead to one place are one upload', () => {
  assert.deepEqual(keys(['a.txt'], output({ suffix: ['.txt'] }), output({ prefix: ['a'] })), ['a.txt']);
});

test('a key of 1,024 bytes is the longest; a longer one is left out of that output with a note', () => {
  const name = 'é'.repeat(500);
  const { files, notes } = assign(walked(name), [
    output({ folder: 'x'.repeat(23) }),
    output({ folder: 'x'.repeat(24) }),
  ]);
  assert.deepEqual([files.length, Buffer.byteLength(files[0]?.to.key ?? '')], [1, 1024]);
  assert.equal(notes.length, 1);
  assert.match(notes[0] ?? '', /its key in minio\.default would be longer than 1024 bytes/);
});

test('regular files are found by name with their size, and everything else is noted and left alone', async (t) => {
  const directory = scratch(t);
  const outside = scratch(t);
  writeFileSync(join(outside, 'secret'), 'secret');
  mkdirSync(join(directory, 'sub/deep'), { recursive: true });
  mkdirSync(join(directory, 'empty'));
  writeFileSync(join(directory, 'sub.txt'), '');
  writeFileSync(join(directory, 'sub/deep/b'), 'four');
  writeFileSync(join(directory, 'sub/ä ?*'), 'x');
  writeFileSync(Buffer.concat([Buffer.from(`${directory}/bad-`), Buffer.from([0xff])]), 'x');
  symlinkSync(join(outside, 'secret'), join(directory, 'link'));
  symlinkSync(outside, join(directory, 'sub/folder-link'));
  symlinkSync('nowhere', join(directory, 'dangling'));
  assert.equal(spawnSync('sh', ['-c', 'mkfifo "$0"', join(directory, 'pipe')]).status, 0);
  const server = createServer().listen(join(directory, 'socket'));
  t.after(() => server.close());

  const { files, notes } = await plan(directory, [output()]);
  assert.deepEqual(
    files.map(({ name, bytes }) => [name, bytes]),
    [
      ['sub.txt', 0],
      ['sub/deep/b', 4],
      ['sub/ä ?*', 1],
    ],
  );
  assert.deepEqual(notes, [
    '"bad-ÿ" is left out: its name is not UTF-8',
    '"dangling" is left out: it is a symbolic link',
    '"link" is left out: it is a symbolic link',
    '"pipe" is left out: it is a named pipe',
    '"socket" is left out: it is a socket',
    '"sub/folder-link" is left out: it is a symbolic link',
  ]);
});

test('a directory that is not there is a failure, not an empty one', async (t) => {
  await assert.rejects(plan(join(scratch(t), 'gone'), [output()]), {
    code: 'output-failed',
    message: /^the output directory could not be read: ENOENT/,
  });
});
