import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { removeTree } from '../attempt-files.ts';
import type { LaunchOrder } from '../launcher.ts';
import { openSandbox } from './isolation.ts';
import { createProcessLauncher, type ProcessLauncherOptions } from './process-launcher.ts';

function makeDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-launcher-'));
  chmodSync(directory, 0o711);
  return directory;
}

type Options = Omit<ProcessLauncherOptions, 'directory'>;

/** A launcher that runs scripts in namespaces. They may write to `shared`. */
export async function openIsolatedLauncher(t: TestContext, options: Options, shared: readonly string[] = []) {
  const directory = makeDirectory();
  const sandbox = await openSandbox({ directory, shared, userIds: options.uids !== undefined });
  return openLauncher(t, { ...options, sandbox }, directory);
}

/** A launcher in its own directory, and orders for it. Everything that it started is killed after the test. */
export function openLauncher(t: TestContext, options: Options = {}, directory = makeDirectory()) {
  const open = () => createProcessLauncher({ directory, ...options });
  const launcher = open();
  const orders: LaunchOrder[] = [];
  t.after(async () => {
    await launcher.close();
    const last = open();
    for (const order of orders) {
      const run = await last.find(order);
      await run?.signal('KILL');
      await run?.ended;
    }
    await last.close();
    await removeTree(directory);
  });

  const order = (script: string, more: Partial<LaunchOrder> = {}) => {
    const root = join(directory, 'attempts', `a${orders.length}`);
    const at = (name: string) => join(root, name);
    const printed: Uint8Array[] = [];
    const made = {
      name: `a${orders.length}`,
      image: 'not-used',
      directory: { root, script: at('script.sh'), input: at('input'), output: at('output'), state: at('state') },
      environment: { TMP_OUTPUT_DIR: at('output'), TMP_INPUT_DIR: at('input') },
      demand: { cpu: 100, memory: 256 * 2 ** 20, gpu: 0 },
      print: (bytes: Uint8Array) => void printed.push(bytes),
      ...more,
      text: () => Buffer.concat(printed).toString(),
    };
    mkdirSync(join(directory, 'attempts'), { recursive: true, mode: 0o711 });
    for (const name of ['', 'input', 'output', 'state']) mkdirSync(at(name), { mode: 0o700 });
    writeFileSync(at('script.sh'), script, { mode: 0o600 });
    orders.push(made);
    return made;
  };
  return { launcher, open, order, directory };
}
