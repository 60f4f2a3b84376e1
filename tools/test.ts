import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { filesOf, matchingFiles, SUITES, type Suite, testOptions } from './test-suites.ts';

/**
 * Runs a suite of tests: `node tools/test.ts <suite> [pattern…] [options of node --test]`. `all` is lint and then the plain
 * suite; with a pattern or an option it is the plain suite alone.
 */

const root = join(import.meta.dirname, '..');
process.chdir(root);

const [name = '', ...given] = process.argv.slice(2);
const suite = SUITES.get(name === 'all' ? 'plain' : name);
assert.ok(suite, `there is no suite "${name}": tools/test-suites.ts has ${[...SUITES.keys()].join(', ')}`);

const options = given.filter((each) => each.startsWith('-'));
const patterns = given.filter((each) => !each.startsWith('-'));

const files = filesToRun(suite);
if (name === 'all' && given.length === 0) step('npm', ['run', 'lint']);
if (suite.build !== undefined) step(process.execPath, [suite.build]);
become([...testOptions(suite), ...options, ...files], {
  ...process.env,
  ...(suite.compileCache && { NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/oscar-manager') }),
});

function filesToRun(from: Suite): readonly string[] {
  if (patterns.length === 0) return filesOf(from, root);
  try {
    return matchingFiles(from, patterns, root);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  }
}

/** Goes on only when the program has succeeded. */
function step(program: string, args: readonly string[]): void {
  const { status, error } = spawnSync(program, args, { stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

/** This process becomes Node's test runner, so that signals and the exit code are those of the runner. */
function become(args: readonly string[], env: NodeJS.ProcessEnv): never {
  process.execve?.(process.execPath, [process.execPath, ...args], env);
  throw new Error('this system cannot replace a process by another one');
}
