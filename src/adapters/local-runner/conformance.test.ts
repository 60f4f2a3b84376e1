import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { describeHostileScripts, HOSTILE_LIMITS } from '../../ports/conformance/hostile-scripts.conformance.ts';
import { describeRunner } from '../../ports/conformance/runner.conformance.ts';
import type { RunnerUnderTest } from '../../ports/conformance/runner-under-test.ts';
import { removeTree } from './attempt-files.ts';
import { DirectoryStores } from './directory-staging.fixture.ts';
import { createLocalRunner } from './local-runner.ts';
import { openSandbox } from './process/isolation.ts';
import { createProcessLauncher, type ProcessLauncherOptions } from './process/process-launcher.ts';
import { openProcessTable } from './process/process-table.ts';
import { ScriptStarter } from './process/starter.ts';
import type { SignalOrder, StartOrder } from './process/wrapper.ts';
import { readExit } from './process/wrapper.ts';

const traits = { image: 'not-used', basics: ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'] };

const starting = new ScriptStarter();
before(() => starting.warm());
after(() => starting.close());
/** Shared by all tests: it takes longer to start than most tests. */
const throughStarter = {
  start: (order: StartOrder) => starting.start(order),
  signal: (order: SignalOrder) => starting.signal(order),
  close: () => undefined,
};

describeRunner('processes of the same user', traits, (grace) => open(grace, {}));
describeRunner('processes that a starter starts', traits, (grace) => open(grace, { starter: throughStarter }));
if (process.getuid?.() === 0) {
  const uids = { first: 61_000, count: 16 };
  const isolated = await open(0, { uids }, true).catch((error: unknown) => String(error));
  if (typeof isolated === 'string') process.emitWarning(`scripts in namespaces are NOT tested: ${isolated}`);
  else {
    await isolated.close();
    describeRunner('processes with their own user ids in namespaces', traits, (grace) =>
      open(grace, { uids, starter: throughStarter }, true),
    );
    const { processes: maxProcesses, disk: maxDisk } = HOSTILE_LIMITS;
    describeHostileScripts('processes in namespaces', { ...traits, capabilities: '0' }, (grace) =>
      open(grace, { uids, maxProcesses, maxDisk }, true),
    );
  }
  describeRunner('processes with their own user ids', traits, (grace) =>
    open(grace, { uids, starter: throughStarter }),
  );
} else {
  process.emitWarning('scripts with their own user ids are NOT tested: that needs root');
}

async function open(
  grace: number,
  options: Omit<ProcessLauncherOptions, 'directory' | 'sandbox'>,
  isolated = false,
): Promise<RunnerUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-runner-'));
  chmodSync(directory, 0o711);
  const sandbox = isolated ? { sandbox: await openSandbox({ directory, userIds: options.uids !== undefined }) } : {};
  const stores = new DirectoryStores(join(directory, 'stores'));
  const openRunner = () =>
    createLocalRunner({
      directory: join(directory, 'runner'),
      staging: stores,
      launcher: createProcessLauncher({ directory: join(directory, 'runner'), ...options, ...sandbox }),
      grace,
    });
  const attempts = join(directory, 'runner', 'attempts');
  const first = openRunner();
  let current = first;
  return {
    runner: first,
    stores,
    async reopen() {
      current = openRunner();
      return current;
    },
    scriptEnded: (name) =>
      eventually(() => assert.ok(readExit(join(attempts, name, 'state'), 1), 'the script has not ended')),
    kept: async (name) => (existsSync(join(attempts, name)) ? readdirSync(join(attempts, name)).toSorted() : []),
    runs: async (word) => {
      const entries = (await openProcessTable().read()).filter(({ zombie }) => !zombie);
      return (await Promise.all(entries.map(({ pid }) => openProcessTable().mentions(pid, word)))).includes(true);
    },
    async close() {
      for (const name of await current.list()) {
        await current.stop(name, 'cancelled');
        await current.forget(name);
      }
      await current.close();
      await removeTree(directory);
    },
  };
}
