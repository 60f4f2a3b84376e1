import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { DirectoryStores } from '../../src/adapters/local-runner/directory-staging.fixture.ts';
import {
  createDockerLauncher,
  type DockerLauncherOptions,
} from '../../src/adapters/local-runner/docker/docker-launcher.ts';
import { createLocalRunner } from '../../src/adapters/local-runner/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { describeHostileScripts, HOSTILE_LIMITS } from '../../src/ports/conformance/hostile-scripts.conformance.ts';
import { describeRunner } from '../../src/ports/conformance/runner.conformance.ts';
import type { RunnerUnderTest } from '../../src/ports/conformance/runner-under-test.ts';
import { runsAnywhere } from '../support/machine-processes.ts';
import { BUSYBOX } from './busybox.ts';
import { Daemon } from './daemon.ts';

let daemon: Daemon;
before(async () => {
  daemon = await Daemon.start();
});
after(() => daemon.stop());

const traits = { image: BUSYBOX, basics: ['PATH', 'HOME', 'HOSTNAME'] };
describeRunner('Docker', traits, make);

/** CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID. */
const CAPABILITIES = 'fb';
const exposed = {
  'fills the disk with files that it deletes and keeps open':
    'the engine does not tell which files the processes of a container have open: only a disk quota would hold',
};
describeHostileScripts('Docker', { ...traits, capabilities: CAPABILITIES, exposed }, (grace) =>
  make(grace, { processes: HOSTILE_LIMITS.processes, maxDisk: HOSTILE_LIMITS.disk }),
);

async function make(grace: number, limits: Partial<DockerLauncherOptions> = {}): Promise<RunnerUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-runner-'));
  const stores = new DirectoryStores(join(directory, 'stores'));
  const instance = randomUUID();
  const open = () =>
    createLocalRunner({
      directory: join(directory, 'runner'),
      staging: stores,
      launcher: createDockerLauncher({ socket: daemon.socket, instance, network: 'none', ...limits }),
      grace,
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
    scriptEnded: (name) => eventually(async () => assert.equal(await isRunning(name), false)),
    kept: async (name) => (existsSync(join(attempts, name)) ? readdirSync(join(attempts, name)).toSorted() : []),
    runs: async (word) => runsAnywhere(word),
    async close() {
      for (const name of await current.list()) {
        await current.stop(name, 'cancelled');
        await current.forget(name);
      }
      await current.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function isRunning(attempt: string): Promise<boolean> {
  const container = await daemon.ask('GET', `/containers/oscar-${attempt}/json`);
  return (container as { State: { Running: boolean } }).State.Running;
}
