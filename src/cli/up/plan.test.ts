import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ClientError } from '../client/errors.ts';
import { clusterIds, makePlan, planFile } from './plan.ts';
import { clearPlace, takePlace } from './up.ts';

function newDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-plan-'));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

/** Somebody else's, until the test is over. */
async function taken(t: TestContext): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  return (server.address() as { port: number }).port;
}

test('clusters are named as in the quickstart', () => {
  assert.deepEqual(clusterIds(4), ['oscar-cluster', 'oscar-cluster-a', 'oscar-cluster-b', 'oscar-cluster-c']);
});

test('a port that is taken is replaced, and that is said', async (t) => {
  const port = await taken(t);
  const { plan, moved } = await makePlan(newDirectory(t), { clusters: 2, port });
  const ports = [...plan.clusters.flatMap((each) => [each.port, each.storePort]), plan.issuerPort, plan.sharedPort];
  assert.ok(!ports.includes(port));
  assert.equal(new Set(ports).size, 6, 'everybody has one');
  assert.ok(moved.includes(`port ${port} is taken: oscar-cluster is at ${plan.clusters[0]?.port}`), moved.join('\n'));
});

test('addresses and passwords stay, also when clusters come and go', async (t) => {
  const directory = newDirectory(t);
  const port = await taken(t);
  const first = (await makePlan(directory, { clusters: 3, port })).plan;
  const second = (await makePlan(directory, { clusters: 1 })).plan;
  assert.deepEqual(second.clusters, first.clusters.slice(0, 1));
  assert.deepEqual((await makePlan(directory, { clusters: 3 })).plan, first);
  assert.equal(statSync(planFile(directory)).mode & 0o777, 0o600);
});

test('a plan that is damaged is said, with what to do', async (t) => {
  const directory = newDirectory(t);
  writeFileSync(planFile(directory), '{');
  await assert.rejects(makePlan(directory, { clusters: 1 }), /is damaged.*--fresh/);
});

test('starting anew removes what was made, and nothing else', async (t) => {
  const directory = newDirectory(t);
  await makePlan(directory, { clusters: 1 });
  for (const name of ['oscar-cluster', 'shared', 'logs', 'mine']) mkdirSync(join(directory, name));
  clearPlace(directory);
  assert.deepEqual(
    ['oscar-cluster', 'shared', 'logs', 'mine'].map((name) => existsSync(join(directory, name))),
    [false, false, false, true],
  );
  mkdirSync(join(directory, 'oscar-cluster'));
  clearPlace(directory);
  assert.ok(existsSync(join(directory, 'oscar-cluster')), 'nobody planned here: it is somebody else’s');
});

test('a directory has one `oscar up`; what one that was killed has left is no obstacle', (t) => {
  const directory = newDirectory(t);
  const file = join(directory, 'up.pid');
  writeFileSync(file, '999999999');
  const place = takePlace(directory);
  assert.equal(readFileSync(file, 'utf8'), String(process.pid));
  place[Symbol.dispose]();
  assert.ok(!existsSync(file));
});

test('a second one on the same directory is a conflict', { skip: !existsSync('/proc/self/cmdline') }, async (t) => {
  const directory = newDirectory(t);
  const { spawn } = await import('node:child_process');
  const other = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)', 'up'], { stdio: 'ignore' });
  t.after(() => other.kill());
  await once(other, 'spawn');
  writeFileSync(join(directory, 'up.pid'), String(other.pid));
  assert.throws(
    () => takePlace(directory),
    (error) =>
      error instanceof ClientError && error.code === 'conflict' && error.message.includes(`process ${other.pid}`),
  );
});
