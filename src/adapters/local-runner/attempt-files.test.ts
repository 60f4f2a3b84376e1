import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { AttemptFiles } from './attempt-files.ts';

function openFiles(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'oscar-files-'));
  t.after(() => rmSync(root, { recursive: true }));
  return { root, files: new AttemptFiles(root) };
}

test('attempt files: an existing script is not rewritten, because a shell may be reading it', (t) => {
  const { files } = openFiles(t);
  const attempt = {
    name: 'a',
    image: 'not-used',
    script: 'echo first',
    environment: {},
    demand: { cpu: 1, memory: 1, gpu: 0 },
    timeout: 1,
    input: { kind: 'none' },
    outputs: [],
    answer: false,
    stores: async () => new Map(),
  } as const;
  files.create(attempt);
  utimesSync(files.directory.script, 1, 1);
  files.create(attempt);
  assert.equal(statSync(files.directory.script).mtimeMs, 1_000);
  files.create({ ...attempt, script: 'echo second' });
  assert.equal(readFileSync(files.directory.script, 'utf8'), 'echo second');
});

test('attempt files: an end is read as it was written', (t) => {
  const { files } = openFiles(t);
  const end = { phase: 'ended', outcome: 'succeeded', reason: 'Completed', message: 'well', finishedAt: 1 } as const;
  assert.equal(files.readEnd(), undefined);
  files.writeEnd(end);
  assert.deepEqual(files.readEnd(), end);
});

for (const { what, text } of [
  { what: 'nothing', text: '' },
  { what: 'zeros', text: '\0\0\0' },
]) {
  test(`attempt files: an end file with ${what} in it after a power cut is a lost attempt`, (t) => {
    const { root, files } = openFiles(t);
    writeFileSync(join(root, 'end.json'), text);
    const end = files.readEnd();
    assert.deepEqual([end?.outcome, end?.reason], ['failed', 'Lost']);
    assert.match(end?.message ?? '', /the machine went down/);
  });

  test(`attempt files: a note with ${what} in it after a power cut is ignored`, (t) => {
    const { root, files } = openFiles(t);
    writeFileSync(join(root, 'attempt.json'), text);
    assert.equal(files.readNote(), undefined);
  });
}

test('attempt files: the error names a damaged end file', (t) => {
  const { root, files } = openFiles(t);
  writeFileSync(join(root, 'end.json'), '{"phase"');
  assert.throws(() => files.readEnd(), { code: 'damaged', message: /end\.json cannot be read/ });
});

test('attempt files: an output directory without entries is empty, a missing one is not', (t) => {
  const { files } = openFiles(t);
  const { output } = files.directory;
  assert.equal(files.isOutputEmpty(), false);
  mkdirSync(output);
  assert.equal(files.isOutputEmpty(), true);
  mkdirSync(join(output, 'deep'));
  assert.equal(files.isOutputEmpty(), false);
});

test('attempt files: an output directory that cannot be read is not empty', {
  skip: process.getuid?.() === 0 ? 'root can read all: NOT TESTED' : false,
}, (t) => {
  const { files } = openFiles(t);
  const { output } = files.directory;
  mkdirSync(output);
  chmodSync(output, 0o000);
  assert.equal(files.isOutputEmpty(), false);
});
