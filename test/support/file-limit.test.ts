import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

const LIMIT = join(import.meta.dirname, 'file-limit.ts');

function run(script: string, limitMs: number): { status: number | null; stderr: string } {
  const env = { ...process.env, NODE_TEST_CONTEXT: 'child', OSCAR_TEST_FILE_LIMIT: String(limitMs) };
  return spawnSync(process.execPath, ['--import', LIMIT, '--eval', script], { env, encoding: 'utf8' });
}

test('file limit: a test file that leaves something open is ended, and the open handles are listed', () => {
  const { status, stderr } = run('require("node:net").createServer().listen(0, "127.0.0.1")', 50);
  assert.equal(status, 1);
  assert.match(stderr, /has not ended within 0\.05 s\. Still open: .*TCPServerWrap/);
});

test('a file of tests that ends is not kept', () => {
  assert.equal(run('void 0', 600_000).status, 0);
});
