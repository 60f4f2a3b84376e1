/**
 * Cgroups of scripts: memory, processes and processor share, enforced by the kernel. Each script has a cgroup below `oscar`
 * at the top of the hierarchy, as Docker has below `docker`. On a hybrid machine the controllers are in hierarchies of version
 * 1, and only the kill of a whole cgroup is in the unified one.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Demand } from '../../../model/job/index.ts';

const PARENT = 'oscar';

export type CgroupController = 'memory' | 'pids' | 'cpu';
const CONTROLLERS: readonly CgroupController[] = ['memory', 'pids', 'cpu'];

interface ControllerPlace {
  readonly version: 1 | 2;
  /** The directory in which each script gets its own. */
  readonly parent: string;
}

/** A smaller limit leaves no memory for the shell; Docker has the same minimum. */
const MIN_MEMORY = 6 * 2 ** 20;

export class Cgroups {
  readonly #parents: readonly string[];
  readonly #controllers: ReadonlyMap<CgroupController, ControllerPlace>;

  constructor(parents: readonly string[], controllers: ReadonlyMap<CgroupController, ControllerPlace>) {
    this.#parents = parents;
    this.#controllers = controllers;
  }

  get controllers(): CgroupController[] {
    return [...this.#controllers.keys()];
  }

  /** The fields of an order to the supervisor that give a script its cgroups. */
  plan(name: string, { memory, cpu }: Demand, processes: number): (readonly [string, string])[] {
    const limits: (readonly [string, string])[] = [];
    const limit = (controller: CgroupController, values: Record<1 | 2, Record<string, number>>) => {
      const place = this.#controllers.get(controller);
      if (!place) return;
      for (const [file, value] of Object.entries(values[place.version])) {
        // Files about swap are missing if the kernel does not account for it.
        if (existsSync(join(place.parent, file))) limits.push(['limit', `${join(place.parent, name, file)}=${value}`]);
      }
    };
    const bytes = Math.max(Math.ceil(memory), MIN_MEMORY);
    if (memory > 0) {
      limit('memory', {
        1: { 'memory.limit_in_bytes': bytes, 'memory.memsw.limit_in_bytes': bytes },
        2: { 'memory.max': bytes, 'memory.swap.max': 0, 'memory.oom.group': 1 },
      });
    }
    if (processes > 0) limit('pids', { 1: { 'pids.max': processes }, 2: { 'pids.max': processes } });
    limit('cpu', { 1: { 'cpu.shares': toShares(cpu) }, 2: { 'cpu.weight': toWeight(toShares(cpu)) } });
    const count = this.#oomFile(name);
    return [
      ...this.#parents.map((path) => ['cgroup', join(path, name)] as const),
      ...limits,
      ...(count === undefined ? [] : [['oom', count] as const]),
    ];
  }

  /** True if the kernel has killed a process of a running script. Version 1 kills that process alone; the script continues. */
  ranOutOfMemory(name: string): boolean {
    try {
      return /^oom_kill [1-9]/m.test(readFileSync(this.#oomFile(name) ?? '', 'utf8'));
    } catch {
      // The script has ended, or there is no limit.
      return false;
    }
  }

  #oomFile(name: string): string | undefined {
    const place = this.#controllers.get('memory');
    return place && join(place.parent, name, place.version === 1 ? 'memory.oom_control' : 'memory.events');
  }

  /** Removes the cgroups of an earlier manager's scripts that have ended. The kernel refuses to remove any other. */
  sweep(prefix: string): void {
    for (const parent of this.#parents) {
      for (const name of readdirSync(parent)) if (name.startsWith(prefix)) removeEmpty(join(parent, name));
    }
  }

  remove(name: string): void {
    for (const parent of this.#parents) removeEmpty(join(parent, name));
  }
}

function removeEmpty(cgroup: string): void {
  try {
    rmdirSync(cgroup);
  } catch {
    // It has processes, or it is gone.
  }
}

/** The conversion that the kubelet and container engines use: 1024 shares for each processor. */
const toShares = (millicores: number) => Math.min(Math.max(Math.round((millicores * 1024) / 1000), 2), 262_144);
const toWeight = (shares: number) => Math.round(1 + ((shares - 2) * 9999) / 262_142);

/** Undefined if this process may not create cgroups, or the machine has none. */
export function openCgroups(mounts = readMounts()): Cgroups | undefined {
  const unified = mounts.find(({ type }) => type === 'cgroup2')?.path;
  const parents = new Set<string>();
  const controllers = new Map<CgroupController, ControllerPlace>();
  if (unified !== undefined && makeParent(unified)) parents.add(join(unified, PARENT));
  for (const controller of CONTROLLERS) {
    if (unified !== undefined && enable(unified, controller)) {
      controllers.set(controller, { version: 2, parent: join(unified, PARENT) });
      continue;
    }
    const separate = mounts.find(({ type, options }) => type === 'cgroup' && options.includes(controller))?.path;
    if (separate === undefined || !makeParent(separate)) continue;
    parents.add(join(separate, PARENT));
    controllers.set(controller, { version: 1, parent: join(separate, PARENT) });
  }
  return parents.size === 0 ? undefined : new Cgroups([...parents], controllers);
}

interface CgroupMount {
  readonly type: string;
  readonly path: string;
  readonly options: readonly string[];
}

function readMounts(): CgroupMount[] {
  const lines = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  return lines.flatMap((line) => {
    const [, path = '', type = '', options = ''] = line.split(' ');
    return type.startsWith('cgroup') ? [{ type, path, options: options.split(',') }] : [];
  });
}

function makeParent(hierarchy: string): boolean {
  try {
    mkdirSync(join(hierarchy, PARENT), { recursive: true });
    return true;
  } catch {
    return false;
  }
}

/** Children of the parent get the controller. False if another hierarchy has it, or this one is not ours to change. */
function enable(unified: string, controller: CgroupController): boolean {
  try {
    for (const path of [unified, join(unified, PARENT)]) {
      const file = join(path, 'cgroup.subtree_control');
      if (!readFileSync(file, 'utf8').split(/\s/).includes(controller)) writeFileSync(file, `+${controller}`);
    }
    return true;
  } catch {
    return false;
  }
}
