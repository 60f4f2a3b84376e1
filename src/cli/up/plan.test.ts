import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ClientError } from '../client/errors.ts';
import { clusterIds, makePlan, planFile } from './plan.ts';
import { clearDirectory, lockDirectory } from './start-federation.ts';

function newDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-plan-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** A port that is in use until the test ends. */
async function usedPort(t: TestContext): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

test('up: clusters have the names of the quickstart', () => {
  assert.deepEqual(clusterIds(4), ['oscar-cluster', 'oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c']);
});

test('up: a port that is in use is replaced, with a message', async (t) => {
  const port = await usedPort(t);
  const { plan, moved } = await makePlan(newDirectory(t), { clusters: 2, port });
  const ports = [...plan.clusters.flatMap((each) => [each.port, each.storePort]), plan.issuerPort, plan.sharedPort];
  assert.ok(!ports.includes(port));
  assert.equal(new Set(ports).size, 6, 'all ports are different');
  assert.ok(moved.includes(`port ${port} is in use: oscar-cluster uses ${plan.clusters[0]?.port}`), moved.join('\n'));
});

test('up: ports and passwords stay the same when the number of clusters changes', async (t) => {
  const directory = newDirectory(t);
  const port = await usedPort(t);
  const first = (await makePlan(directory, { clusters: 3, port })).plan;
  const second = (await makePlan(directory, { clusters: 1 })).plan;
  assert.deepEqual(second.clusters, first.clusters.slice(0, 1));
  assert.deepEqual((await makePlan(directory, { clusters: 3 })).plan, first);
  assert.equal(statSync(planFile(directory)).mode & 0o777, 0o600);
});

test('up: a damaged plan is an error that says what to do', async (t) => {
  const directory = newDirectory(t);
  writeFileSync(planFile(directory), '{');
  await assert.rejects(makePlan(directory, { clusters: 1 }), /is damaged.*--fresh/);
});

test('up: --fresh deletes only what `oscar up` has created', async (t) => {
  const directory = newDirectory(t);
  await makePlan(directory, { clusters: 1 });
  for (const name of ['oscar-cluster', 'shared', 'logs', 'mine']) mkdirSync(join(directory, name));
  clearDirectory(directory);
  assert.deepEqual(
    ['oscar-cluster', 'shared', 'logs', 'mine'].map((name) => existsSync(join(directory, name))),
    [false, false, false, true],
  );
  mkdirSync(join(directory, 'oscar-cluster'));
  clearDirectory(directory);
  assert.ok(existsSync(join(directory, 'oscar-cluster')), 'without a plan, the directory is not ours');
});

test('up: the lock of a killed `oscar up` is replaced', (t) => {
  const directory = newDirectory(t);
  const file = join(directory, 'up.pid');
  writeFileSync(file, '999999999');
  const place = lockDirectory(directory);
  assert.equal(readFileSync(file, 'utf8'), String(process.pid));
  place[Symbol.dispose]();
  assert.ok(!existsSync(file));
});

test('up: a second `oscar up` on the same directory is a conflict', {
  skip: !existsSync('/proc/self/cmdline'),
}, async (t) => {
  const directory = newDirectory(t);
  const { spawn } = await import('node:child_process');
  const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)', 'up'], { stdio: 'ignore' });
  t.after(() => other.kill());
  await once(other, 'spawn');
  writeFileSync(join(directory, 'up.pid'), String(other.pid));
  assert.throws(
    () => lockDirectory(directory),
    (error) =>
      error instanceof ClientError && error.code === 'conflict' && error.message.includes(`process ${other.pid}`),
  );
});
