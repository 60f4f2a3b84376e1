import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { UNCHECKED } from './generated-client.ts';

const root = join(import.meta.dirname, '..');

test('generated client: the client of a foreign generator compiles with strict types', (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-client-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const text = readFileSync(join(root, 'test/support/generated-client.ts'), 'utf8');
  assert.ok(text.startsWith(UNCHECKED));
  symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'));
  writeFileSync(join(directory, 'client.ts'), text.slice(UNCHECKED.length));
  const compilerOptions = { strict: true, noEmit: true, module: 'nodenext', target: 'es2023', skipLibCheck: true };
  writeFileSync(join(directory, 'package.json'), '{"type":"module"}');
  writeFileSync(join(directory, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['client.ts'] }));
  const compiled = spawnSync(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', directory], {
    encoding: 'utf8',
  });
  assert.equal(compiled.status, 0, `${compiled.stdout}${compiled.stderr}`);
});
