import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StageOut } from '../../model/job/index.ts';
import { scratch } from './embedded-store.fixture.ts';
import { plan } from './upload.ts';

const output = (given: Partial<StageOut> = {}): StageOut => ({
  store: 'minio.default',
  bucket: 'out',
  folder: '',
  prefix: [],
  suffix: [],
  ...given,
});

test('upload plan: regular files are listed with their size, everything else is noted and skipped', async (t) => {
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

test('upload plan: a missing directory is an error', async (t) => {
  await assert.rejects(plan(join(scratch(t), 'gone'), [output()]), {
    code: 'output-failed',
    message: /^the output directory could not be read: ENOENT/,
  });
});
