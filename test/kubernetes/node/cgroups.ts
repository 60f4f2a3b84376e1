import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';

/** Creates the root cgroup of the kubelet, which the kubelet requires to exist: in every hierarchy of cgroups v1. */
export function createCgroups(name: string): void {
  for (const hierarchy of hierarchies()) {
    const directory = join(hierarchy, name);
    mkdirSync(directory, { recursive: true });
    // No process can enter a cgroup whose cpuset is empty.
    for (const setting of ['cpuset.cpus', 'cpuset.mems']) {
      const [from, to] = [join(hierarchy, setting), join(directory, setting)];
      if (existsSync(from) && existsSync(to)) writeFileSync(to, readFileSync(from));
    }
  }
}

/** Removes the cgroups. Throws while a process is in them. */
export function removeCgroups(name: string): void {
  for (const hierarchy of hierarchies()) {
    const directory = join(hierarchy, name);
    if (existsSync(directory)) removeFrom(directory);
  }
}

/** Whether the content of `/proc/<pid>/cgroup` names one of these cgroups. */
export function isInCgroups(membership: string, name: string): boolean {
  return membership.split('\n').some((line) => {
    const path = line.slice(line.indexOf(':', line.indexOf(':') + 1) + 1);
    return path === `/${name}` || path.startsWith(`/${name}/`);
  });
}

function removeFrom(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) removeFrom(join(directory, entry.name));
  }
  rmdirSync(directory);
}

/** Where v1 and v2 are both mounted, runc creates cgroups in v2 too. */
function hierarchies(): string[] {
  if (existsSync(join(ROOT, 'cgroup.controllers'))) return [ROOT];
  return readdirSync(ROOT)
    .filter((name) => existsSync(join(ROOT, name, 'cgroup.procs')))
    .map((name) => join(ROOT, name));
}
