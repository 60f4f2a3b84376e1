import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { filesOf, matchingFiles, PLAIN, SUITES, testOptions } from './test-suites.ts';

const root = join(import.meta.dirname, '..');

const FILES = [
  'src/jobs/queue.test.ts',
  'src/jobs/sweep/sweep.test.ts',
  'test/jobs.test.ts',
  'test/minio/jobs.minio.ts',
];

/** A repository with these files, which are empty. */
function repository(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'oscar-suites-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const file of [...FILES, 'src/jobs/queue.ts']) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), '');
  }
  return folder;
}

const matches = [
  { name: 'the path of a file', patterns: ['src/jobs/queue.test.ts'], found: [0] },
  { name: 'a path with detours', patterns: ['test/../src/jobs/./queue.test.ts'], found: [0] },
  { name: 'the whole repository', patterns: ['.'], found: [0, 1, 2] },
  { name: 'a path from here', patterns: ['./test/jobs.test.ts'], found: [2] },
  { name: 'a folder, with those below', patterns: ['src/jobs/'], found: [0, 1] },
  { name: 'a part of a path', patterns: ['jobs'], found: [0, 1, 2] },
  { name: 'several patterns, each file once', patterns: ['sweep', 'src/jobs'], found: [0, 1] },
];
test('test patterns: an absolute path', (t) => {
  const folder = repository(t);
  assert.deepEqual(matchingFiles(PLAIN, [join(folder, 'test/jobs.test.ts')], folder), ['test/jobs.test.ts']);
});
for (const { name, patterns, found } of matches) {
  test(`test patterns: ${name}`, (t) => {
    assert.deepEqual(
      matchingFiles(PLAIN, patterns, repository(t)),
      found.map((index) => FILES[index]),
    );
  });
}

const refusals = [
  { name: 'nothing matches', pattern: 'quue', message: /^no test file matches quue: give a path/ },
  {
    name: 'a file that is no test',
    pattern: 'src/jobs/queue.ts',
    message: /^no test file matches src\/jobs\/queue\.ts/,
  },
  {
    name: 'a test of another suite',
    pattern: 'test/minio',
    message: /^test\/minio is tested by another command: npm run test:minio -- test\/minio$/,
  },
];
for (const { name, pattern, message } of refusals) {
  test(`test patterns: ${name} is refused, also beside one that matches`, (t) => {
    assert.throws(() => matchingFiles(PLAIN, ['queue.test', pattern], repository(t)), { message });
  });
}

test('test suites: every test file is in exactly one', () => {
  const kinds = '{test,kubernetes,pods,long,minio,clients,docker}';
  const tests = globSync(`{src,test,tools,deploy,bench,web}/**/*.${kinds}.ts`, { cwd: root });
  const inSuites = [...SUITES.values()].flatMap((suite) => filesOf(suite, root));
  assert.deepEqual(inSuites.toSorted(), tests.toSorted());
});

test('test suites: campaigns, programs and the page are not in npm test, which names the command that runs them', () => {
  for (const [suite, file] of [
    ['campaigns', 'test/jobs-chaos.test.ts'],
    ['programs', 'test/cli/up.test.ts'],
    ['page', 'test/page/page.test.ts'],
  ]) {
    assert.throws(() => matchingFiles(PLAIN, [String(file)], root), {
      message: `${file} is tested by another command: npm run test:${suite} -- ${file}`,
    });
  }
});

test('test suites: the time of a test, the time of a file and the files at once are those of the suite', () => {
  const limited = testOptions({ concurrency: 3, timeoutMs: 300_000, fileLimit: true });
  assert.deepEqual(limited, [
    '--import',
    join(root, 'test/support/file-limit.ts'),
    '--test',
    '--test-concurrency=3',
    '--test-timeout=300000',
    '--test-reporter=spec',
  ]);
  const free = testOptions({ timeoutMs: 1, fileLimit: false });
  assert.deepEqual(free, ['--test', '--test-timeout=1', '--test-reporter=spec']);
});

/** As `npm test -- <args>` does it. */
function runTests(args: readonly string[]): { readonly status: number | null; readonly output: string } {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const run = spawnSync(process.execPath, [join(root, 'tools/test.ts'), ...args], { env, encoding: 'utf8' });
  return { status: run.status, output: run.stdout + run.stderr };
}

test('npm test: a pattern runs the files that match, with options of node, and without lint', () => {
  const { status, output } = runTests(['all', 'tools/structure', '--test-name-pattern=two files declare']);
  assert.match(output, /unique names: a name that two files declare/);
  assert.match(output, /tests 1\n/);
  assert.doesNotMatch(output, /npm run|lint/);
  assert.equal(status, 0, output);
});

test('npm test: a pattern that matches nothing fails', () => {
  const { status, output } = runTests(['all', 'no-such-test']);
  assert.match(output, /^no test file matches no-such-test/);
  assert.equal(status, 1);
});

test('npm test: a suite that does not exist fails', () => {
  const { status, output } = runTests(['nothing']);
  assert.match(output, /there is no suite "nothing"/);
  assert.equal(status, 1);
});
