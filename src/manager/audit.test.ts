import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../test/support/temporary-directory.ts';
import { AuditFile, readLastRecords } from './audit.ts';

const quiet = { error: () => undefined, info: () => undefined };

test('audit file: lines wait while it cannot be written, and what does not fit is counted', async (t) => {
  const directory = makeTemporaryDirectory();
  t.after(() => removeTemporaryDirectory(directory));
  const path = join(directory, 'later', 'audit.jsonl');
  const file = new AuditFile(path, quiet, 2);
  assert.match(file.problem ?? '', /ENOENT/);
  for (const line of ['a', 'b', 'c', 'd', 'e']) file.write(`${line}\n`);
  mkdirSync(join(directory, 'later'));
  file.close();
  assert.equal(file.problem, undefined);
  const [first, second, lost] = readFileSync(path, 'utf8').trim().split('\n');
  assert.deepEqual([first, second], ['a', 'b']);
  const { action, outcome, count } = JSON.parse(lost ?? '') as Record<string, unknown>;
  assert.deepEqual([action, outcome, count], ['audit.lost', 'failed', 3]);
});

test('audit file: its last records are known after a restart, and a line that is not complete is left out', (t) => {
  const directory = makeTemporaryDirectory();
  t.after(() => removeTemporaryDirectory(directory));
  const path = join(directory, 'audit.jsonl');
  const record = (actor: string) => `${JSON.stringify({ audit: 1, time: 't', action: 'sign-in', actor })}\n`;
  const many = Array.from({ length: 5_000 }, (_, index) => record(`user:${index}`)).join('');
  writeFileSync(path, `${many}{"audit":1,"ti`);
  const records = readLastRecords(path);
  assert.equal(records.at(-1)?.actor, 'user:4999');
  assert.ok(records.length > 1_000 && records.length < 5_000);
  assert.deepEqual(readLastRecords(join(directory, 'none.jsonl')), []);
});
