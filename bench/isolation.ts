import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Launcher, LaunchOrder } from '../src/adapters/local-runner/launcher.ts';
import { openSandbox } from '../src/adapters/local-runner/process/isolation.ts';
import { createProcessLauncher } from '../src/adapters/local-runner/process/process-launcher.ts';
import { ScriptStarter } from '../src/adapters/local-runner/process/starter.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { median, percentile } from './support/statistics.ts';

export const description = 'one script that does nothing, as a plain process, with and without isolation, in turns';

export const figures = {
  none: { what: 'a script without isolation, from its launch to its proven end, median', unit: 'ms' },
  noneSpread: { what: '… between the 25th and the 75th percentile', unit: 'ms' },
  users: { what: '… with a user id alone', unit: 'ms' },
  isolated: { what: '… with a user id, namespaces and cgroups', unit: 'ms' },
  isolatedSpread: { what: '… between the 25th and the 75th percentile', unit: 'ms' },
  added: { what: '… added by isolation to none', unit: 'ms', reach: ['≤', 3] },
} satisfies Record<string, Figure>;

const TURNS = 220;
const WARM = 20;
/** Far from those of the tests, and of a manager with the default settings. */
const UIDS = { first: 62_000, count: 50 };

/** Needs root, for user ids and cgroups. */
export async function run(): Promise<Measured<typeof figures>> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  chmodSync(directory, 0o711);
  const starter = new ScriptStarter();
  await starter.warm();
  const open = async (name: 'none' | 'users' | 'isolated') => {
    const place = join(directory, name);
    mkdirSync(place, { mode: 0o711 });
    const sandbox = name === 'isolated' ? await openSandbox({ directory: place, userIds: true }) : undefined;
    const uids = name === 'none' ? {} : { uids: UIDS };
    const launcher = createProcessLauncher({ directory: place, starter, ...uids, ...(sandbox && { sandbox }) });
    return { name, launcher, place, times: [] as number[] };
  };
  const [none, users, isolated] = [await open('none'), await open('users'), await open('isolated')];
  for (let turn = 0; turn < TURNS; turn++) {
    for (const each of [none, users, isolated]) {
      const time = await timeOne(each.launcher, each.place, `job-${turn}`);
      if (turn >= WARM) each.times.push(time);
    }
  }
  for (const { launcher } of [none, users, isolated]) await launcher.close();
  rmSync(directory, { recursive: true, force: true });
  const spread = (times: number[]) => percentile(times, 75) - percentile(times, 25);
  return {
    none: median(none.times),
    noneSpread: spread(none.times),
    users: median(users.times),
    isolated: median(isolated.times),
    isolatedSpread: spread(isolated.times),
    added: median(isolated.times) - median(none.times),
  };
}

async function timeOne(launcher: Launcher, place: string, name: string): Promise<number> {
  const root = join(place, 'attempts', name);
  const at = (path: string) => join(root, path);
  mkdirSync(join(place, 'attempts'), { recursive: true, mode: 0o711 });
  for (const path of ['', 'input', 'output', 'state']) mkdirSync(at(path), { mode: 0o700 });
  writeFileSync(at('script.sh'), 'exit 0', { mode: 0o600 });
  const order: LaunchOrder = {
    name,
    image: '',
    directory: { root, script: at('script.sh'), input: at('input'), output: at('output'), state: at('state') },
    environment: { TMP_OUTPUT_DIR: at('output') },
    demand: { cpu: 100, memory: 2 ** 28, gpu: 0 },
    print: () => undefined,
  };
  const begun = performance.now();
  const { exitCode } = await (await launcher.launch(order)).ended;
  const time = performance.now() - begun;
  if (exitCode !== 0) throw new Error(`the script ended with ${exitCode}`);
  await launcher.remove(name);
  rmSync(root, { recursive: true, force: true });
  return time;
}
