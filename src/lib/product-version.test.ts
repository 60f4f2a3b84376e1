import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readCommit } from './product-version.ts';

const COMMIT = '0123456789abcdef0123456789abcdef01234567';

const cases: readonly [name: string, files: Record<string, string>, commit: string][] = [
  ['an image', { '.commit': `${COMMIT}\n` }, COMMIT],
  ['a checkout of a branch', { '.git/HEAD': 'ref: refs/heads/main\n', '.git/refs/heads/main': `${COMMIT}\n` }, COMMIT],
  [
    'a checkout of a packed branch',
    { '.git/HEAD': 'ref: refs/heads/main\n', '.git/packed-refs': `# pack-refs\n${COMMIT} refs/heads/main\n` },
    COMMIT,
  ],
  ['a checkout of a commit', { '.git/HEAD': `${COMMIT}\n` }, COMMIT],
  ['a branch without commits', { '.git/HEAD': 'ref: refs/heads/main\n' }, ''],
  ['a package', {}, ''],
];

for (const [name, files, commit] of cases) {
  test(`commit: ${name} ${commit ? 'knows its commit' : 'has none'}`, (t) => {
    const root = mkdtempSync(join(tmpdir(), 'oscar-commit-'));
    t.after(() => rmSync(root, { recursive: true }));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(join(root, path, '..'), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    assert.equal(readCommit(pathToFileURL(`${root}/`)), commit);
  });
}
