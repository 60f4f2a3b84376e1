import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import type { Logger } from 'pino';
import type { ServiceStore } from '../../cluster/index.ts';
import { LocalCapacity } from '../../cluster/local/index.ts';
import {
  createLocalRunner,
  createProcessLauncher,
  type DockerSearch,
  findDocker,
  type Launcher,
  openDockerLauncher,
} from '../../cluster/local-runner/index.ts';
import type { Config } from '../../config.ts';
import { Dispatcher, forgetStrays, type Jobs } from '../../jobs/index.ts';
import { createStaging } from '../../supervisor/index.ts';
import { runsDirectory } from '../runs-directory.ts';
import type { Workplace } from './workplace.ts';

/** Worker processes that move files for jobs. They mostly wait for stores and disks. */
const STAGING_WORKERS = 2;

/** User ids that scripts get, one each while they run. */
const UIDS = 500;

/** This machine: scripts run in containers or as processes of it. */
export async function openLocalWorkplace(config: Config, log: Logger): Promise<Workplace> {
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
    const strays = await forgetStrays(jobs);
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
  const instance = instanceOf(config.dataDir);
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
function instanceOf(dataDir: string): string {
  return createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16);
}

/** The workers are started with the first service: a manager without any pays nothing for them. */
async function warmWhenNeeded(services: ServiceStore, warm: () => Promise<void>, signal: AbortSignal): Promise<void> {
  const changes = services.watch(signal);
  const { items } = await services.list({ limit: 1 });
  if (items.length > 0) return warm();
  for await (const _ of changes) return warm();
}
