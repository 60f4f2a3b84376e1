import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { packageFiles } from './packages.ts';

function checkout(t: { after: (end: () => void) => void }, packages: Record<string, object>, files: string[]): string {
  const root = mkdtempSync(join(tmpdir(), 'oscar-packages-'));
  t.after(() => rmSync(root, { recursive: true }));
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify({ packages: { '': {}, ...packages } }));
  for (const file of files) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), file);
  }
  return root;
}

const names = (root: string) => packageFiles(root, 'app/').map(({ name }) => name);

test('the image has the packages that run, each once, also one inside another', (t) => {
  const root = checkout(
    t,
    {
      'node_modules/outer': {},
      'node_modules/outer/node_modules/inner': {},
      'node_modules/linter': { dev: true },
      'node_modules/extra': { optional: true },
      'node_modules/node': {},
    },
    [
      'node_modules/outer/index.js',
      'node_modules/outer/package.json',
      'node_modules/outer/LICENSE',
      'node_modules/outer/node_modules/inner/index.js',
      'node_modules/outer/node_modules/stray/index.js',
      'node_modules/linter/index.js',
      'node_modules/extra/index.js',
      'node_modules/node/bin/node',
    ],
  );
  assert.deepEqual(names(root), [
    'app/node_modules/outer/LICENSE',
    'app/node_modules/outer/index.js',
    'app/node_modules/outer/package.json',
    'app/node_modules/outer/node_modules/inner/index.js',
  ]);
});

test('what is never loaded stays outside: types, maps, pages', (t) => {
  const files = ['index.js', 'index.mjs', 'index.d.ts', 'index.d.mts', 'index.js.map', 'README.md', 'data.json'];
  const root = checkout(t, { 'node_modules/a': {}, 'node_modules/@types/a': {} }, [
    ...files.map((file) => `node_modules/a/${file}`),
    'node_modules/@types/a/package.json',
  ]);
  assert.deepEqual(
    names(root),
    ['data.json', 'index.js', 'index.mjs'].map((file) => `app/node_modules/a/${file}`),
  );
});

test('a checkout without its packages says what to do', (t) => {
  assert.throws(() => names(checkout(t, { 'node_modules/a': {} }, [])), /node_modules\/a is not there: run `npm ci`/);
});
