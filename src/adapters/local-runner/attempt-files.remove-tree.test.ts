import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { removeTree } from './attempt-files.ts';

test('remove tree: directories deeper than the longest path, locked ones and links are removed, targets of links are not', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-tree-'));
  const outside = mkdtempSync(join(tmpdir(), 'oscar-tree-'));
  t.after(() => rmSync(outside, { recursive: true }));
  symlinkSync(outside, join(directory, 'link'));
  // Two paths of allowed length, one moved below the other.
  const deep = `cd "$1"; mkdir locked locked/in; chmod 0 locked
    mkdir -p "$2" "b/$2" && cd "$2" && mv "$1/b" .`;
  execFileSync('/bin/sh', ['-c', deep, 'x', directory, `${'d'.repeat(200)}/`.repeat(15)]);
  await removeTree(directory);
  assert.equal(existsSync(directory), false);
  assert.equal(existsSync(outside), true);
  await removeTree(directory);
});
