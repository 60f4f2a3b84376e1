import { readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { eventually } from '../../../src/ports/conformance/eventually.ts';
import { isInCgroups, removeCgroups } from './cgroups.ts';
import type { ClusterNames } from './names.ts';
import { networkNamespacePath, removeNetwork } from './network.ts';

/** What was killed is gone at once, unless the machine is very busy. */
const GONE_MS = 60_000;

/** Everything of a cluster that is still on this machine. Nothing in it is worth to be asked. */
export async function removeCluster(names: ClusterNames): Promise<void> {
  await killAll(() => [...findNetworkProcesses(names), ...findPodProcesses(names)]);
  await removeNetwork(names);
  // They are left a moment after their last process.
  await eventually(() => removeCgroups(names.name), GONE_MS, 20);
  await rm(names.directory, { recursive: true, force: true, maxRetries: 10 });
}

/** Until there are none: who is about to be killed may have just started another. */
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

/** Kubernetes itself, containerd, and what watches over each container. */
export function findNetworkProcesses({ name }: ClusterNames): number[] {
  const wanted = inode(networkNamespacePath(name));
  return wanted === undefined ? [] : listProcesses().filter((pid) => inode(`/proc/${pid}/ns/net`) === wanted);
}

/** What runs in containers. */
export function findPodProcesses({ name }: ClusterNames): number[] {
  return listProcesses().filter((pid) => isInCgroups(readOrEmpty(`/proc/${pid}/cgroup`), name));
}

/** Without those that are dead and that nobody has taken notice of. */
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
    // It was quicker.
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
