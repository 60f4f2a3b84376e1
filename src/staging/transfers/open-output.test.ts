import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { scratch } from './embedded-store.fixture.ts';
import { openOutput } from './remote-store.ts';

const changed = { message: 'the file changed after it was listed' };

test('output file: it is opened, also through a link to the directory', async (t) => {
  const directory = scratch(t);
  mkdirSync(join(directory, 'real/sub'), { recursive: true });
  writeFileSync(join(directory, 'real/sub/a'), 'abc');
  symlinkSync('real', join(directory, 'outputs'));
  await using file = await openOutput(join(directory, 'outputs'), 'sub/a');
  const read = async () => Buffer.concat(await file.content().toArray()).toString();
  assert.deepEqual([file.bytes, await read(), await read()], [3, 'abc', 'abc']);
});

test('output file: a link in place of a file is not followed', async (t) => {
  const directory = scratch(t);
  symlinkSync('/etc/hostname', join(directory, 'a'));
  await assert.rejects(openOutput(directory, 'a'), changed);
});

test('output file: a link in place of a folder is not followed', async (t) => {
  const directory = scratch(t);
  mkdirSync(join(directory, 'outputs/sub'), { recursive: true });
  mkdirSync(join(directory, 'elsewhere'));
  writeFileSync(join(directory, 'elsewhere/a'), 'secret');
  renameSync(join(directory, 'outputs/sub'), join(directory, 'outputs/moved'));
  symlinkSync('../elsewhere', join(directory, 'outputs/sub'));
  await assert.rejects(openOutput(join(directory, 'outputs'), 'sub/a'), changed);
});

test('output file: a pipe in place of a file does not block', async (t) => {
  const directory = scratch(t);
  assert.equal(spawnSync('sh', ['-c', 'mkfifo "$0"', join(directory, 'a')]).status, 0);
  await assert.rejects(openOutput(directory, 'a'), changed);
});

test('output file: a truncated file is an error, and appended bytes are ignored', async (t) => {
  const directory = scratch(t);
  const path = join(directory, 'a');
  writeFileSync(path, 'abc');
  await using file = await openOutput(directory, 'a');
  writeFileSync(path, 'abcdef');
  assert.equal(Buffer.concat(await file.content().toArray()).toString(), 'abc');
  writeFileSync(path, 'a');
  await assert.rejects(file.content().toArray(), { message: 'the file became shorter while it was read' });
});
