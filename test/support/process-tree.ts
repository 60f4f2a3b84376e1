import { readdirSync, readFileSync } from 'node:fs';

/** A process that cannot be mistaken for a later one with the same id. */
export interface TreeProcess {
  readonly pid: number;
  readonly parent: number;
  /** In ticks since the machine started. */
  readonly startedAt: string;
  readonly command: string;
}

/** All processes below that one, children first. Needs /proc. */
export function descendants(root: number): TreeProcess[] {
  const all = readdirSync('/proc').flatMap((name) => look(name) ?? []);
  const found: TreeProcess[] = [];
  let parents = [root];
  while (parents.length > 0) {
    const children = all.filter(({ parent }) => parents.includes(parent));
    found.push(...children);
    parents = children.map(({ pid }) => pid);
  }
  return found;
}

/** Those of them that still run. A zombie does not run. */
export const stillRunning = (processes: readonly TreeProcess[]): TreeProcess[] =>
  processes.filter(({ pid, startedAt }) => look(String(pid))?.startedAt === startedAt);

function look(name: string): TreeProcess | undefined {
  if (!/^\d+$/.test(name)) return undefined;
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
    const [state = '', parent = '', ...more] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return undefined;
    const command = readFileSync(`/proc/${name}/cmdline`, 'latin1').replaceAll('\0', ' ').trim();
    return { pid: Number(name), parent: Number(parent), startedAt: more[17] ?? '', command };
  } catch {
    // The process has ended meanwhile.
    return undefined;
  }
}
