import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../eventually.ts';
import { describeRunner } from '../runner.conformance.ts';
import type { RunnerUnderTest } from '../runner-under-test.ts';
import { DirectoryStores } from './directory-staging.fixture.ts';
import { createLocalRunner } from './local-runner.ts';
import { createProcessLauncher } from './process/index.ts';
import { processTable } from './process/process-table.ts';
import type { UidRange } from './process/uids.ts';
import { removeTree } from './remove-tree.ts';

const traits = { image: 'not-used', basics: ['PATH', 'HOME', 'TMPDIR', 'LANG', 'TZ'] };

describeRunner('processes of the same user', traits, () => make());
if (process.getuid?.() === 0) {
  describeRunner('processes of users of their own', traits, () => make({ first: 61_000, count: 16 }));
} else {
  process.emitWarning('scripts with users of their own are NOT tested: only root can give them some');
}

async function make(uids?: UidRange): Promise<RunnerUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-runner-'));
  chmodSync(directory, 0o711);
  const stores = new DirectoryStores(join(directory, 'stores'));
  const open = () =>
    createLocalRunner({
      directory: join(directory, 'runner'),
      staging: stores,
      launcher: createProcessLauncher({ directory: join(directory, 'runner'), ...(uids && { uids }) }),
      grace: 300,
    });
  const attempts = join(directory, 'runner', 'attempts');
  const first = open();
  let current = first;
  return {
    runner: first,
    stores,
    async reopen() {
      current = open();
      return current;
    },
    scriptEnded: (name) =>
      eventually(() => assert.ok(existsSync(join(attempts, name, 'state', 'marks', 'exit')), 'it has not ended')),
    kept: async (name) => (existsSync(join(attempts, name)) ? readdirSync(join(attempts, name)).toSorted() : []),
    runs: async (word) => {
      const entries = (await processTable().read()).filter(({ zombie }) => !zombie);
      return (await Promise.all(entries.map(({ pid }) => processTable().mentions(pid, word)))).includes(true);
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
