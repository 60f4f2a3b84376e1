import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { LogOptions } from '../../ports/index.ts';
import { readJobLog } from './logs.ts';
import { openScene, type Scene } from './origin.fixture.ts';

async function read(scene: Scene, key: JobKey, options: Partial<LogOptions> = {}): Promise<string> {
  const deps = { ...scene.manager.current.deps, runner: scene.runner, place: 'here' };
  const chunks = readJobLog(await scene.job(key), { timestamps: false, follow: false, ...options }, deps);
  return Buffer.concat(await Array.fromAsync(chunks)).toString();
}

async function running(scene: Scene): Promise<JobKey> {
  scene.fill();
  const key = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() });
  return key;
}

test('logs: the log of a delegated job is read at its cluster', async () => {
  await using scene = await openScene();
  const key = await running(scene);
  scene.target('b').log = ['one\n', 'two\n'];
  assert.equal(await read(scene, key), 'one\ntwo\n');
});

test('logs: if the cluster becomes unreachable, the log ends with a line that says so', async () => {
  await using scene = await openScene();
  const key = await running(scene);
  scene.target('b').log = ['one\n'];
  scene.target('b').logFails = true;
  assert.match(
    await read(scene, key),
    /^one\n\[cluster "b", where it ran, cannot be asked for the rest of this log now\]\n$/,
  );
});

test('logs: with follow, reading waits until the job starts', async () => {
  await using scene = await openScene();
  scene.fill();
  scene.target('b').log = ['late\n'];
  const key = await scene.submit();
  await eventually(() => assert.equal(scene.target('b').taken.size, 1));
  const log = read(scene, key, { follow: true });
  await scene.target('b').says({ state: 'running', startedAt: scene.clock.now() });
  assert.equal(await log, 'late\n');
});

test('logs: the log of a waiting job is empty', async () => {
  await using scene = await openScene();
  scene.fill();
  for (const id of ['b', 'c']) scene.target(id).plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  assert.equal(await read(scene, key), '');
});

test('logs: a line says that the log at a former member is not available', async () => {
  await using scene = await openScene();
  const key = await running(scene);
  await scene.changeLedger((ledger) => ({
    ...ledger,
    members: ledger.members.filter((each) => each.clusterId !== 'b'),
  }));
  scene.clock.pass(6_000);
  assert.match(await read(scene, key), /^\[it ran at b, which is no longer a member/);
});

test('logs: the log of a local attempt is read here', async () => {
  await using scene = await openScene();
  const key = await scene.submit();
  await eventually(() => assert.ok(scene.runner.attempts.has(key.id)));
  assert.equal(await read(scene, key), `log of ${key.id}\n`);
});

test('logs: the log of a job at a Go manager, which uses the same job name, is read there', async () => {
  await using scene = await openScene({
    clusters: ['b'],
    upstream: ['b'],
    deps: { getOwnerToken: async () => new Secret('token') },
  });
  scene.fill();
  const key = await scene.submit();
  await scene.until(key, ({ state }) => state === 'delegated');
  scene.target('b').log = ['over there\n'];
  assert.equal(await read(scene, key), 'over there\n');
});
