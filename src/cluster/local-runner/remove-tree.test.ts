import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeTree } from './remove-tree.ts';

test('directories deeper than a path can say, locked ones and links are removed; what links point to is not', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-tree-'));
  const beside = mkdtempSync(join(tmpdir(), 'oscar-tree-'));
  t.after(() => rmSync(beside, { recursive: true }));
  symlinkSync(beside, join(directory, 'link'));
  const deep = `cd "$1"; mkdir locked locked/in; chmod 0 locked
    i=0; while [ $i -lt 30 ]; do mkdir ${'d'.repeat(200)} && cd ${'d'.repeat(200)}; i=$((i+1)); done`;
  execFileSync('/bin/sh', ['-c', deep, 'x', directory]);
  await removeTree(directory);
  assert.equal(existsSync(directory), false);
  assert.equal(existsSync(beside), true);
  await removeTree(directory);
});
