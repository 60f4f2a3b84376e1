import assert from 'node:assert/strict';
import { existsSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { endOf, printed, RunnerBench, run, toBucket } from '../../ports/conformance/runner-under-test.ts';
import { removeTree } from './attempt-files.ts';
import { DirectoryStores } from './directory-staging.fixture.ts';
import type { Launcher } from './launcher.ts';
import { createLocalRunner } from './local-runner.ts';
import { createProcessLauncher } from './process/process-launcher.ts';

/** A runner that records its calls to staging and launcher, and cleans up only after `cleanUp` was called. */
function openRunner(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-local-runner-'));
  const stores = new DirectoryStores(join(directory, 'stores'));
  const asked: string[] = [];
  const cleanUp = Promise.withResolvers<void>();
  const launcher: Launcher = createProcessLauncher({ directory: join(directory, 'runner') });
  const remove = launcher.remove.bind(launcher);
  const removing: string[] = [];
  launcher.remove = async (name) => {
    removing.push('asked');
    await cleanUp.promise;
    await remove(name);
    removing.push('done');
  };
  for (const step of ['plan', 'upload', 'pack'] as const) {
    const works = stores[step].bind(stores) as (...parameters: unknown[]) => Promise<never>;
    stores[step] = (...parameters: unknown[]) => {
      asked.push(step);
      return works(...parameters);
    };
  }
  const runner = createLocalRunner({ directory: join(directory, 'runner'), staging: stores, launcher });
  t.after(async () => {
    cleanUp.resolve();
    for (const name of await runner.list()) await runner.forget(name);
    await runner.close();
    await removeTree(directory);
  });
  const bench = new RunnerBench({ image: 'not-used', basics: [] }, () => Promise.reject(new Error('not used')));
  const attempt = (script: string, more = {}) =>
    bench.attempt({ runner, stores, reopen: async () => runner, close: async () => undefined }, script, more);
  const output = (name: string) => join(directory, 'runner', 'attempts', name, 'output');
  return { runner, asked, removing, attempt, output, cleanUp: () => cleanUp.resolve() };
}

test('local runner: the end is reported before the files are cleaned up', async (t) => {
  const { runner, attempt, output } = openRunner(t);
  const made = attempt('echo said', { answer: true });
  assert.equal((await run(runner, made)).outcome, 'succeeded');
  assert.ok(existsSync(output(made.name)));
  assert.equal(Buffer.concat(await Array.fromAsync(await runner.answer(made.name))).toString(), 'said\n');
  assert.equal(await printed(runner, made.name), 'said\n');
});

test('local runner: an attempt that is being cleaned up is not started again', async (t) => {
  const { runner, attempt } = openRunner(t);
  const made = attempt('echo said');
  const ended = await run(runner, made);
  await runner.start(made);
  assert.deepEqual(await endOf(runner, made.name), ended);
  assert.equal(await printed(runner, made.name), 'said\n');
});

test('local runner: an attempt is forgotten after its clean-up', async (t) => {
  const { runner, attempt, removing, cleanUp } = openRunner(t);
  const made = attempt('echo said');
  await run(runner, made);
  const forgotten = runner.forget(made.name);
  assert.deepEqual(await runner.list(), [made.name]);
  cleanUp();
  await forgotten;
  assert.deepEqual(removing, ['asked', 'done', 'asked', 'done']);
  assert.deepEqual(await runner.list(), []);
  await assert.rejects(endOf(runner, made.name), { code: 'absent' });
});

for (const { left, script, steps } of [
  { left: 'nothing', script: 'echo said', steps: [] },
  { left: 'a file', script: 'echo x >"$TMP_OUTPUT_DIR/x"', steps: ['plan', 'upload', 'pack'] },
  { left: 'an empty directory', script: 'mkdir "$TMP_OUTPUT_DIR/x"', steps: ['plan', 'pack'] },
]) {
  test(`local runner: for a script that left ${left}, staging is asked for ${steps.join(', ') || 'nothing'}`, async (t) => {
    const { runner, attempt, asked } = openRunner(t);
    assert.equal((await run(runner, attempt(script, { answer: true, outputs: toBucket() }))).outcome, 'succeeded');
    assert.deepEqual(asked, steps);
  });
}

/** Closes a runner at that moment, resumes the attempt in the next one, and stops it at once. */
async function stopInNextRunner(t: TestContext, script: string, moment: 'running' | 'uploading') {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-local-runner-'));
  const stores = new DirectoryStores(join(directory, 'stores'));
  const upload = stores.upload.bind(stores);
  const reached = Promise.withResolvers<void>();
  stores.upload = async (order) => {
    await upload(order);
    reached.resolve();
    return new Promise<never>(() => {});
  };
  const open = () => {
    const launcher = createProcessLauncher({ directory: join(directory, 'runner') });
    return createLocalRunner({ directory: join(directory, 'runner'), staging: stores, launcher });
  };
  const first = open();
  const bench = new RunnerBench({ image: 'not-used', basics: [] }, () => Promise.reject(new Error('not used')));
  const made = bench.attempt(
    { runner: first, stores, reopen: async () => first, close: async () => undefined },
    script,
    { outputs: toBucket() },
  );
  await first.start(made);
  if (moment === 'uploading') await reached.promise;
  else for await (const { phase } of first.observe(made.name)) if (phase === 'running') break;
  await first.close();

  stores.upload = upload;
  const next = open();
  t.after(async () => {
    for (const name of await next.list()) await next.forget(name);
    await next.close();
    await removeTree(directory);
  });
  await next.start(made);
  await next.stop(made.name, 'cancelled');
  return { ...(await endOf(next, made.name)), uploads: await stores.uploads('bucket') };
}

test('local runner: an attempt whose upload had begun in an earlier manager is completed, not cancelled', async (t) => {
  const { outcome, uploads } = await stopInNextRunner(t, 'echo x >"$TMP_OUTPUT_DIR/x"', 'uploading');
  assert.deepEqual([outcome, uploads], ['succeeded', ['x']]);
});

test('local runner: a script that an earlier manager started can be cancelled, and uploads nothing', async (t) => {
  const { outcome, uploads } = await stopInNextRunner(t, 'echo x >"$TMP_OUTPUT_DIR/x"; sleep 60', 'running');
  assert.deepEqual([outcome, uploads], ['stopped', []]);
});
