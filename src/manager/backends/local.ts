import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import {
  createLocalRunner,
  createProcessLauncher,
  type DockerSearch,
  findDocker,
  type Launcher,
  LocalCapacity,
  openDockerLauncher,
} from '../../adapters/local-runner/index.ts';
import type { Config } from '../../config/index.ts';
import { Dispatcher, type Jobs, removeStrayAttempts } from '../../jobs/index.ts';
import type { ServiceStore } from '../../ports/index.ts';
import { createStaging } from '../../staging/index.ts';
import type { Backend } from './backend.ts';

/** Worker processes that move files for jobs. They mostly wait for stores and disks. */
const STAGING_WORKERS = 2;

/** User ids that scripts get, one each while they run. */
const UIDS = 500;

/** This machine: scripts run in containers or as processes of it. */
export async function openLocalBackend(config: Config, log: Logger): Promise<Backend> {
  await using opened = new AsyncDisposableStack();
  const { directory, launcher, endStrays } = await chooseLauncher(config, log);
  const staging = opened.adopt(createStaging({ workers: STAGING_WORKERS, networks: config.peerNetworks }), (it) =>
    it.close(),
  );
  const runner = opened.adopt(
    createLocalRunner({ directory, staging, launcher, maxLogBytes: config.maxLogBytes }),
    (it) => it.close(),
  );
  await endStrays?.(new Set(await runner.list()));
  const closing = opened.move();
  return {
    runner,
    capacity: new LocalCapacity({
      name: hostname(),
      cpu: config.localCpuMillicores ?? availableParallelism() * 1000,
      memory: config.localMemoryBytes ?? totalmem(),
      used: () => runner.usage(),
    }),
    staging,
    runtime: launcher.kind,
    node: hostname(),
    line: async (options) => new Dispatcher(options),
    async lead(jobs, { signal }) {
      // Nobody waits for it: it reads every job there is.
      void tidy(jobs, signal, log);
      void warmWhenNeeded(jobs.services, () => staging.warm(), signal).catch((err: unknown) =>
        log.warn({ err }, 'the workers that move files could not be started beforehand'),
      );
    },
    close: () => closing.disposeAsync(),
  };
}

/** Removes what an earlier manager died over removing. Never fails. */
async function tidy(jobs: Jobs, signal: AbortSignal, log: Logger): Promise<void> {
  try {
    const strays = await removeStrayAttempts(jobs);
    if (strays > 0) log.info({ strays }, 'removed runs that no job names');
  } catch (err) {
    if (!signal.aborted) log.warn({ err }, 'runs that no job names could not be removed');
  }
}

interface Chosen {
  readonly directory: string;
  readonly launcher: Launcher;
  /** Ends what an earlier run left and no attempt knows of. */
  readonly endStrays?: (known: ReadonlySet<string>) => Promise<void>;
}

async function chooseLauncher(config: Config, log: Logger): Promise<Chosen> {
  const instance = instanceId(config.dataDir);
  const docker: DockerSearch =
    config.localRuntime === 'process' ? { reason: 'OSCAR_LOCAL_RUNTIME=process' } : await findDocker(process.env);
  if (docker.socket !== undefined) {
    log.info({ engine: docker.name, socket: docker.socket }, 'scripts run in containers');
    const directory = runsDirectory(config.dataDir, false, instance);
    const launcher = await openDockerLauncher({ socket: docker.socket, instance });
    return { directory, launcher, endStrays: (known) => launcher.endStrays(known) };
  }
  if (config.localRuntime === 'docker') {
    throw new Error(`OSCAR_LOCAL_RUNTIME=docker, but no Docker or Podman answers: ${docker.reason}`);
  }
  const root = process.getuid?.() === 0;
  const directory = runsDirectory(config.dataDir, root, instance);
  log.warn({ because: docker.reason }, 'scripts run as plain processes of this machine: their images are not used');
  const launcher = createProcessLauncher({
    directory,
    maxDisk: config.localDiskBytes,
    ...(root && { uids: { first: config.localUid, count: UIDS } }),
  });
  return { directory, launcher };
}

/** Two managers of one Docker tell their containers apart by where they keep their data. */
function instanceId(dataDir: string): string {
  return createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16);
}

/** The workers are started with the first service: a manager without any pays nothing for them. */
async function warmWhenNeeded(services: ServiceStore, warm: () => Promise<void>, signal: AbortSignal): Promise<void> {
  const changes = services.watch(signal);
  const { items } = await services.list({ limit: 1 });
  if (items.length > 0) return warm();
  for await (const _ of changes) return warm();
}

/** Where directories for jobs are kept when the data directory lies where only its owner may go. Survives a reboot. */
const ELSEWHERE = '/var/tmp';

/**
 * The directory of the runs of jobs: beside the other data, if scripts that run as other users can get there. A manager
 * that is root often has its data in a home where nobody else may go; then it is a directory of its own elsewhere.
 */
function runsDirectory(dataDir: string, otherUsers: boolean, instance: string): string {
  const beside = join(realpathSync(dataDir), 'runs');
  if (!otherUsers) return beside;
  if (ancestors(dirname(dirname(beside))).every(isOpen)) {
    // They may go through, and see nothing: what is in it is readable for the manager alone.
    chmodSync(dataDir, 0o711);
    return beside;
  }
  const elsewhere = join(ELSEWHERE, `oscar-${instance}`);
  mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
  const { uid } = lstatSync(elsewhere);
  if (!lstatSync(elsewhere).isDirectory() || uid !== process.getuid?.()) {
    throw new Error(`${elsewhere} is needed for the files of jobs, and somebody else made it: remove it`);
  }
  return elsewhere;
}

function ancestors(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [path, ...ancestors(parent)];
}

const isOpen = (path: string) => (statSync(path).mode & 0o001) !== 0;
