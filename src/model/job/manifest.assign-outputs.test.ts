import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageOut } from './attempt.ts';
import { assignOutputs } from './manifest.ts';

const output = (given: Partial<StageOut> = {}): StageOut => ({
  store: 'minio.default',
  bucket: 'out',
  folder: '',
  prefix: [],
  suffix: [],
  ...given,
});

const named = (...names: string[]) => names.map((name) => ({ name, bytes: 1 }));
const keys = (names: string[], ...outputs: StageOut[]) =>
  assignOutputs(named(...names), outputs).files.map(({ to }) => to.key);

test('outputs: a file goes to the folder of its output, with its whole relative name', () => {
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

test('outputs: a file goes to every output that matches', () => {
  const { files } = assignOutputs(named('a.txt'), [
    output(),
    output({ store: 's3.far', bucket: 'other', folder: 'x' }),
  ]);
  assert.deepEqual(
    files.map(({ to }) => `${to.store} ${to.bucket} ${to.key}`),
    ['minio.default out a.txt', 's3.far other x/a.txt'],
  );
});

test('outputs: two outputs with one destination are one upload', () => {
  assert.deepEqual(keys(['a.txt'], output({ suffix: ['.txt'] }), output({ prefix: ['a'] })), ['a.txt']);
});

test('outputs: a key of more than 1,024 bytes is left out with a note', () => {
  const name = 'é'.repeat(500);
  const { files, notes } = assignOutputs(named(name), [
    output({ folder: 'x'.repeat(23) }),
    output({ folder: 'x'.repeat(24) }),
  ]);
  assert.deepEqual([files.length, Buffer.byteLength(files[0]?.to.key ?? '')], [1, 1024]);
  assert.equal(notes.length, 1);
  assert.match(notes[0] ?? '', /its key in minio\.default would be longer than 1024 bytes/);
});
