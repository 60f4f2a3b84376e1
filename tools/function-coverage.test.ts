import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FunctionCoverage, filesOfFunctions, functionsOfProcesses } from './function-coverage.ts';

const MODULE = `
export const never = () => 'never';
export function greet() {
  return 'hello';
}
`;

function temporary(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'oscar-coverage-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A folder with two modules, which are the same. */
function modules(t: TestContext): string {
  const folder = temporary(t);
  mkdirSync(join(folder, 'below'));
  for (const file of ['a.mts', 'below/b.mts']) writeFileSync(join(folder, file), MODULE);
  return folder;
}

test('function coverage: a file counts when one of its functions ran since the last time, not when it is loaded', async (t) => {
  const folder = modules(t);
  await using coverage = await FunctionCoverage.start(folder);
  const taken = async () => filesOfFunctions(await coverage.take());
  const a = await import(join(folder, 'a.mts'));
  const b = await import(join(folder, 'below/b.mts'));
  assert.deepEqual(await taken(), []);
  b.greet();
  assert.deepEqual(await taken(), ['below/b.mts']);
  assert.deepEqual(await taken(), []);
  a.greet();
  b.never();
  assert.deepEqual(await taken(), ['a.mts', 'below/b.mts']);
});

test('function coverage: two functions of a file are two, and those of other folders none', async (t) => {
  const folder = modules(t);
  await using coverage = await FunctionCoverage.start(join(folder, 'below'));
  const a = await import(join(folder, 'a.mts'));
  const b = await import(join(folder, 'below/b.mts'));
  await coverage.take();
  a.greet();
  b.greet();
  const first = await coverage.take();
  b.never();
  const second = await coverage.take();
  assert.deepEqual([first.size, second.size, first.union(second).size], [1, 1, 2]);
  assert.deepEqual(filesOfFunctions(first.union(second)), ['b.mts']);
});

test('function coverage: the functions of processes are read from their reports', (t) => {
  const folder = modules(t);
  const reports = temporary(t);
  const script = `import { greet } from '${join(folder, 'a.mts')}'; import '${join(folder, 'below/b.mts')}'; greet();`;
  const env = { ...process.env, NODE_V8_COVERAGE: reports };
  const { status } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], { env, stdio: 'inherit' });
  assert.equal(status, 0);
  assert.deepEqual(filesOfFunctions(functionsOfProcesses(reports, folder)), ['a.mts']);
});
