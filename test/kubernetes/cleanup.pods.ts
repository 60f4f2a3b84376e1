import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { findNetworkProcesses, findPodProcesses } from './node/cleanup.ts';
import { Cluster } from './node/cluster.ts';
import { type ClusterNames, clusterNames } from './node/names.ts';
import { KERNEL_SETTINGS } from './node/settings.ts';

/** Killed processes are gone within a second. The limit allows for a busy machine. */
const GONE_MS = 60_000;

/** Outside the numbers that other tests choose from. */
const ID = 77;

test('test cluster: a killed test process leaves nothing behind', async (t) => {
  const before = kernelSettings();
  const { child, names } = await startChild(t);
  assert.notDeepEqual(left(names), []);
  assert.deepEqual(kernelSettings(), before);
  child.kill('SIGKILL');
  await eventually(() => assert.deepEqual(left(names), []), GONE_MS, 50);
});

test('test cluster: the next cluster with the same number removes what a killed one left', async (t) => {
  const { child, names } = await startChild(t);
  const keeper = keeperOf(names);
  assert.ok(keeper > 0);
  process.kill(keeper, 'SIGKILL');
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.notDeepEqual(left(names), []);
  const pods = findPodProcesses(names);
  const next = await Cluster.start({ id: ID });
  t.after(() => next.stop());
  assert.deepEqual(
    findPodProcesses(names).filter((pid) => pods.includes(pid)),
    [],
  );
  await next.stop();
  assert.deepEqual(left(names), []);
});

interface Cleanup {
  after(clean: () => void): void;
}

async function startChild(t: Cleanup): Promise<{ child: ChildProcess; names: ClusterNames }> {
  const script = fileURLToPath(new URL('node/cluster.child.ts', import.meta.url));
  const child = spawn(process.execPath, [script, String(ID)], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  const [said] = await Promise.race([once(createInterface({ input: child.stdout }), 'line'), once(child, 'exit')]);
  assert.equal(said, 'runs');
  return { child, names: clusterNames(ID) };
}

/** Everything on this machine that belongs to the cluster. */
function left(names: ClusterNames): string[] {
  const cgroups = readdirSync('/sys/fs/cgroup').map((hierarchy) => `/sys/fs/cgroup/${hierarchy}/${names.name}`);
  const paths = [names.directory, `/run/netns/${names.name}`, `/sys/class/net/${names.name}`, ...cgroups];
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  return [
    ...[...findNetworkProcesses(names), ...findPodProcesses(names)].map((pid) => `process ${pid}`),
    ...paths.filter((path) => existsSync(path)),
    ...mounts.filter((mount) => mount.includes(`${names.name}/`)),
  ];
}

function keeperOf({ id }: ClusterNames): number {
  const found = readdirSync('/proc').find((pid) => {
    try {
      const command = /^\d+$/.test(pid) ? readFileSync(`/proc/${pid}/cmdline`, 'utf8') : '';
      return command.endsWith(`cluster-lock.child.ts\0${id}\0`);
    } catch {
      return false;
    }
  });
  return Number(found);
}

function kernelSettings(): string[] {
  return Object.keys(KERNEL_SETTINGS).map((name) => readFileSync(`/proc/sys/${name}`, 'utf8'));
}
