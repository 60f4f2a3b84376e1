import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import {
  createDockerLauncher,
  type DockerLauncherOptions,
} from '../../src/adapters/local-runner/docker/docker-launcher.ts';
import type { LaunchOrder, Run, RunEnd } from '../../src/adapters/local-runner/launcher.ts';
import { BUSYBOX } from './busybox.ts';
import type { Daemon } from './daemon.ts';

/** An order whose output the test can read. */
export interface Ordered extends LaunchOrder {
  readonly printed: { readonly text: string; readonly at: number }[];
  text(): string;
  lines(): string[];
}

/** An order with its own directories, as the runner creates them. */
export function orderOf(t: TestContext, script: string, more: Partial<LaunchOrder> = {}): Ordered {
  const root = mkdtempSync(join(tmpdir(), 'oscar-attempt-'));
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const directory = {
    root,
    script: join(root, 'script.sh'),
    input: join(root, 'input'),
    output: join(root, 'output'),
    state: join(root, 'state'),
  };
  for (const path of [directory.input, directory.output, directory.state]) mkdirSync(path, { mode: 0o700 });
  writeFileSync(directory.script, script, { mode: 0o600 });
  const demand = { cpu: 500, memory: 64 * 2 ** 20, gpu: 0 };
  return listening({ name: `test-${randomUUID()}`, image: BUSYBOX, directory, environment: {}, demand, ...more });
}

/** In a script: waits for {@link tell}. */
export const UNTIL_TOLD = 'while [ ! -e /oscar/input/told ]; do sleep 0.02; done';

export function tell({ directory }: Ordered): void {
  writeFileSync(join(directory.input, 'told'), '');
}

/** The same attempt, as the next manager sees it. */
export function listening(order: Omit<LaunchOrder, 'print'>): Ordered {
  const printed: { text: string; at: number }[] = [];
  const text = () => printed.map((each) => each.text).join('');
  return {
    ...order,
    printed,
    print: (bytes, at) => void printed.push({ text: Buffer.from(bytes).toString('latin1'), at }),
    text,
    lines: () => text().split('\n').slice(0, -1),
  };
}

/** A launcher that is closed at the end of the test, after everything that it started has been ended. */
export function launcherOn(t: TestContext, daemon: Daemon, more: Partial<DockerLauncherOptions> = {}) {
  const launcher = createDockerLauncher({ socket: daemon.socket, instance: `of ${t.name}`, network: 'none', ...more });
  t.after(() => launcher.close());
  return launcher;
}

/** Runs an order from its start to its end. */
export async function runToEnd(t: TestContext, daemon: Daemon, order: Ordered): Promise<RunEnd & { run: Run }> {
  const launcher = launcherOn(t, daemon);
  const run = await launcher.launch(order);
  const end = await run.ended;
  await launcher.remove(order.name);
  return { ...end, run };
}
