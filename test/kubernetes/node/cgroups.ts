import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';

/** Made by us, because the kubelet wants that it exists: in every hierarchy, where there are several. */
export function createCgroups(name: string): void {
  for (const hierarchy of hierarchies()) {
    const directory = join(hierarchy, name);
    mkdirSync(directory, { recursive: true });
    // Nothing may enter a set of no processors.
    for (const setting of ['cpuset.cpus', 'cpuset.mems']) {
      const [from, to] = [join(hierarchy, setting), join(directory, setting)];
      if (existsSync(from) && existsSync(to)) writeFileSync(to, readFileSync(from));
    }
  }
}

/** Once no process is in them any more. */
export function removeCgroups(name: string): void {
  for (const hierarchy of hierarchies()) {
    const directory = join(hierarchy, name);
    if (existsSync(directory)) removeFrom(directory);
  }
}

/** Whether a process runs in one of them: by what /proc says of it. */
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

/** Where both generations are in use, runc leaves something in the new one too. */
function hierarchies(): string[] {
  if (existsSync(join(ROOT, 'cgroup.controllers'))) return [ROOT];
  return readdirSync(ROOT)
    .filter((name) => existsSync(join(ROOT, name, 'cgroup.procs')))
    .map((name) => join(ROOT, name));
}
