import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { programFiles } from './program.ts';
import type { TarEntry } from './tar.ts';

const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

describe('the program in the image', () => {
  let files: TarEntry[];
  before(() => {
    files = programFiles(CHECKOUT, 'app/');
  });

  test('has what is imported, and also what is only started: workers and threads', () => {
    const names = new Set(files.map(({ name }) => name));
    const wanted = [
      'bin/oscar.js',
      'src/main.js',
      'src/cli/serve.js',
      'src/staging/transfers/worker.js',
      'web/dist/index.html',
    ];
    for (const name of wanted) assert.ok(names.has(`app/${name}`), name);
    assert.ok(names.has('app/src/s3-server/store/content-worker.js'));
    assert.ok(names.has('app/src/adapters/kubernetes/index.js'), 'imported only when needed');
  });

  test('has no types and no tests', () => {
    assert.deepEqual(
      files.map(({ name }) => name).filter((name) => /\.ts$|\.(test|conformance|fixture|child)\./.test(name)),
      [],
    );
    for (const { name, bytes } of files.filter((file) => file.name.endsWith('.js'))) {
      assert.doesNotMatch(Buffer.from(bytes ?? []).toString(), /^import type |from '\.[^']*\.ts'/m, name);
    }
  });

  test('runs', (t) => {
    const root = mkdtempSync(join(tmpdir(), 'oscar-program-'));
    t.after(() => rmSync(root, { recursive: true }));
    for (const { name, bytes } of files) {
      mkdirSync(dirname(join(root, name)), { recursive: true });
      writeFileSync(join(root, name), bytes ?? '');
    }
    symlinkSync(join(CHECKOUT, 'node_modules'), join(root, 'app/node_modules'));
    const node = (...args: string[]) =>
      execFileSync(process.execPath, args, { encoding: 'utf8', env: { NODE_DISABLE_COMPILE_CACHE: '1' } });
    assert.match(node(join(root, 'app/bin/oscar.js'), 'version'), /^oscar \d/);
    // All that a manager loads, on Kubernetes too.
    const parts = [
      'cli/serve.js',
      'adapters/kubernetes/index.js',
      'adapters/object-stores/minio/index.js',
      'staging/index.js',
    ];
    const load = parts.map((part) => `await import(${JSON.stringify(join(root, 'app/src', part))});`).join('');
    assert.equal(node('--input-type=module', '--eval', `${load}process.stdout.write('all'); process.exit(0)`), 'all');
  });
});
