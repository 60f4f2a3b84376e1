import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs';
import { availableParallelism, hostname, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import type { Logger } from 'pino';
import {
  createLocalRunner,
  createProcessLauncher,
  type DockerSearch,
  describeIsolation,
  findDocker,
  type Isolation,
  type Launcher,
  LocalCapacity,
  openDockerLauncher,
  openSandbox,
  type Sandbox,
} from '../../adapters/local-runner/index.ts';
import type { Config } from '../../config/index.ts';
import { Dispatcher, type Jobs, removeStrayAttempts } from '../../jobs/index.ts';
import type { DiskSpace } from '../../lib/disk-space.ts';
import type { ServiceStore } from '../../ports/index.ts';
import { createStaging } from '../../staging/index.ts';
import type { Backend } from './backend.ts';

/** Worker processes that move files for jobs. They mostly wait for stores and disks. */
const STAGING_WORKERS = 2;

/** Number of user ids for scripts; each running script has its own. */
const UIDS = 500;

/** The local backend: scripts run in containers or as processes of this machine. */
export async function openLocalBackend(config: Config, log: Logger, disk?: DiskSpace): Promise<Backend> {
  await using opened = new AsyncDisposableStack();
  const { directory, launcher, isolation, removeOrphans } = await chooseLauncher(config, log);
  await disk?.watch(directory);
  const staging = opened.adopt(createStaging({ workers: STAGING_WORKERS, networks: config.peerNetworks }), (it) =>
    it.close(),
  );
  const runner = opened.adopt(
    createLocalRunner({ directory, staging, launcher, maxLogBytes: config.maxLogBytes, disk }),
    (it) => it.close(),
  );
  await removeOrphans?.(new Set(await runner.list()));
  const closing = opened.move();
  return {
    runner,
    capacity: new LocalCapacity({
      name: hostname(),
      cpu: config.localCpuMillicores ?? availableParallelism() * 1000,
      memory: config.localMemoryBytes ?? totalmem(),
      used: () => runner.usage(),
      disk,
    }),
    staging,
    runtime: launcher.kind,
    ...(isolation && { isolation }),
    node: hostname(),
    line: async (options) => new Dispatcher(options),
    async lead(jobs, { signal }) {
      // Not awaited, because it reads all jobs.
      void tidy(jobs, signal, log);
      void warmWhenNeeded(jobs.services, () => staging.warm(), signal).catch((err: unknown) =>
        log.warn({ err }, 'could not start the staging workers in advance'),
      );
    },
    close: () => closing.disposeAsync(),
  };
}

/** Removes runs whose removal was interrupted by a crash of an earlier manager. Never throws. */
async function tidy(jobs: Jobs, signal: AbortSignal, log: Logger): Promise<void> {
  try {
    const strays = await removeStrayAttempts(jobs);
    if (strays > 0) log.info({ strays }, 'removed runs without a job');
  } catch (err) {
    if (!signal.aborted) log.warn({ err }, 'could not remove runs without a job');
  }
}

interface Chosen {
  readonly directory: string;
  readonly launcher: Launcher;
  readonly isolation?: Isolation;
  /** Kills and removes the containers of earlier managers that belong to no attempt. */
  readonly removeOrphans?: (known: ReadonlySet<string>) => Promise<void>;
}

async function chooseLauncher(config: Config, log: Logger): Promise<Chosen> {
  const instance = instanceId(config.dataDir);
  const docker: DockerSearch =
    config.localRuntime === 'process' ? { reason: 'OSCAR_LOCAL_RUNTIME=process' } : await findDocker(process.env);
  if (docker.socket !== undefined) {
    log.info({ engine: docker.name, socket: docker.socket }, 'scripts run in containers');
    const directory = runsDirectory(config.dataDir, false, instance);
    const launcher = await openDockerLauncher({ socket: docker.socket, instance, maxDisk: config.localDiskBytes });
    return { directory, launcher, removeOrphans: (known) => launcher.removeOrphans(known) };
  }
  if (config.localRuntime === 'docker') {
    throw new Error(`OSCAR_LOCAL_RUNTIME=docker, but neither Docker nor Podman is available: ${docker.reason}`);
  }
  const root = process.getuid?.() === 0;
  const directory = runsDirectory(config.dataDir, root, instance);
  log.warn({ because: docker.reason }, 'scripts run as plain processes of this machine: their images are not used');
  const sandbox = await trySandbox(config, directory, root);
  const isolation =
    sandbox instanceof Error
      ? { user_ids: root, namespaces: false, enforced: [], reason: sandbox.message }
      : sandbox.isolation;
  requireIsolation(config, isolation);
  log[isolation.namespaces ? 'info' : 'warn']({ isolation }, describeIsolation(isolation));
  const launcher = createProcessLauncher({
    directory,
    maxDisk: config.localDiskBytes,
    ...(root && { uids: { first: config.localUid, count: UIDS } }),
    ...(!(sandbox instanceof Error) && { sandbox }),
  });
  return { directory, launcher, isolation };
}

async function trySandbox(config: Config, directory: string, root: boolean): Promise<Sandbox | Error> {
  for (const path of config.localShared) {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory())
      throw new Error(`OSCAR_LOCAL_SHARED has ${path}, which is not a directory of this machine`);
  }
  mkdirSync(directory, { recursive: true, mode: 0o711 });
  try {
    return await openSandbox({ directory, hidden: [config.dataDir], shared: config.localShared, userIds: root });
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Without namespaces, nothing keeps the script of one user from the secrets of another. */
export function requireIsolation({ oidcEnable, allowUnisolatedScripts }: Config, isolation: Isolation): void {
  if (isolation.namespaces || !oidcEnable || allowUnisolatedScripts) return;
  throw new Error(
    `${describeIsolation(isolation)}. With OIDC_ENABLE=true this manager serves several users, and a script of one user could ` +
      'reach the secrets of another. Run scripts in containers (OSCAR_LOCAL_RUNTIME=docker), make namespaces possible, or set ' +
      'OSCAR_ALLOW_UNISOLATED_SCRIPTS=true if all users trust each other',
  );
}

/** Managers that share a Docker distinguish their containers by their data directory. */
function instanceId(dataDir: string): string {
  return createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 16);
}

/** The staging workers are started with the first service, because a manager without services does not need them. */
async function warmWhenNeeded(services: ServiceStore, warm: () => Promise<void>, signal: AbortSignal): Promise<void> {
  const changes = services.watch(signal);
  const { items } = await services.list({ limit: 1 });
  if (items.length > 0) return warm();
  for await (const _ of changes) return warm();
}

/** The directory for runs if other users cannot access the data directory. It must survive a reboot. */
const ELSEWHERE = '/var/tmp';

/**
 * The directory for the runs of jobs: in the data directory, if scripts that run as other users can access it. The data of a
 * manager that runs as root is often in a home directory that other users cannot access; then it is a separate directory.
 */
function runsDirectory(dataDir: string, otherUsers: boolean, instance: string): string {
  const beside = join(realpathSync(dataDir), 'runs');
  if (!otherUsers) return beside;
  if (ancestors(dirname(dirname(beside))).every(isOpen)) {
    // Scripts may traverse it but not list it; only the manager can read its contents.
    chmodSync(dataDir, 0o711);
    return beside;
  }
  const elsewhere = join(ELSEWHERE, `oscar-${instance}`);
  mkdirSync(elsewhere, { recursive: true, mode: 0o711 });
  const { uid } = lstatSync(elsewhere);
  if (!lstatSync(elsewhere).isDirectory() || uid !== process.getuid?.()) {
    throw new Error(`${elsewhere} is needed for the files of jobs but belongs to another user: remove it`);
  }
  return elsewhere;
}

function ancestors(path: string): string[] {
  const parent = dirname(path);
  return parent === path ? [path] : [path, ...ancestors(parent)];
}

const isOpen = (path: string) => (statSync(path).mode & 0o001) !== 0;
