import { readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { eventually } from '../../../src/ports/conformance/eventually.ts';
import { isInCgroups, removeCgroups } from './cgroups.ts';
import type { ClusterNames } from './names.ts';
import { networkNamespacePath, removeNetwork } from './network.ts';

/** A killed process is gone at once, unless the machine is very busy. */
const GONE_MS = 60_000;

/** Removes everything of a cluster from this machine: processes, network, cgroups and files. */
export async function removeCluster(names: ClusterNames): Promise<void> {
  await killAll(() => [...findNetworkProcesses(names), ...findPodProcesses(names)]);
  await removeNetwork(names);
  // The kernel keeps a cgroup for a moment after its last process ended.
  await eventually(() => removeCgroups(names.name), GONE_MS, 20);
  await rm(names.directory, { recursive: true, force: true, maxRetries: 10 });
}

/** Repeats until no process is found: a process may have started another just before it was killed. */
export async function killAll(find: () => readonly number[]): Promise<void> {
  await eventually(
    () => {
      const found = find();
      for (const pid of found) kill(pid);
      if (found.length > 0) throw new Error(`processes ${found.join(', ')} do not end`);
    },
    GONE_MS,
    20,
  );
}

/** Processes of Kubernetes, containerd and its shims. */
export function findNetworkProcesses({ name }: ClusterNames): number[] {
  const wanted = inode(networkNamespacePath(name));
  return wanted === undefined ? [] : listProcesses().filter((pid) => inode(`/proc/${pid}/ns/net`) === wanted);
}

/** Processes in containers. */
export function findPodProcesses({ name }: ClusterNames): number[] {
  return listProcesses().filter((pid) => isInCgroups(readOrEmpty(`/proc/${pid}/cgroup`), name));
}

/** Lists all processes except zombies. */
function listProcesses(): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    const status = readOrEmpty(`/proc/${pid}/stat`);
    return status !== '' && !/^[ZX]/.test(status.slice(status.lastIndexOf(')') + 2));
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

function inode(path: string): number | undefined {
  try {
    return statSync(path).ino;
  } catch {
    return undefined;
  }
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
