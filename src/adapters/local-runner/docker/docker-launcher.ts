import { setTimeout as pause } from 'node:timers/promises';
import { LaunchError, type Launcher, type LaunchOrder, type Run } from '../launcher.ts';
import { ContainerRun } from './container-run.ts';
import { buildContainerSpec, CONTAINER_VIEW, containerName } from './container-spec.ts';
import { type ContainerState, Containers } from './containers.ts';
import { Engine, EngineError, retryWhileUnreachable, splitLines } from './engine.ts';
import { Images } from './images.ts';
import { type FileOwner, openToContainer, takeOwnership } from './ownership.ts';
import { UsageSampler } from './usage.ts';

/** Enough for any pipeline of a script, and few enough that a fork bomb leaves the machine usable. */
const PROCESSES = 4_096;

/** Larger: scripts can print more while no manager reads it. Smaller: they use less disk of the engine. */
const LOG_BYTES = 128 * 2 ** 20;

/** Shorter: a script exceeds its limit of disk space by less. Longer: less load, since all its files are counted. */
const DISK_INTERVAL_MS = 1_500;

/** Longer than the restart of a daemon, which takes some seconds; shorter fails attempts, longer delays their error. */
const UNREACHABLE_MS = 60_000;

/** Another manager may create or remove the same container meanwhile. After so many repetitions it is no coincidence. */
const MAX_TRIES = 5;

export interface DockerLauncherOptions {
  readonly socket: string;
  /** Separates two managers on one daemon: each sees only its own containers. */
  readonly instance: string;
  readonly network?: string;
  readonly processes?: number;
  /** Bytes that a script may have on the disk, including its input. Unlimited if absent. */
  readonly maxDisk?: number;
  readonly logBytes?: number;
  /** The owner of the files that scripts leave; by default the user of this process. */
  readonly owner?: FileOwner;
}

export interface DockerLauncher extends Launcher {
  /** Kills and removes the containers of this instance that belong to none of these attempts. */
  removeOrphans(keep: ReadonlySet<string>): Promise<void>;
}

/** Runs scripts in the image of their service, through the Engine API. */
export function createDockerLauncher(options: DockerLauncherOptions): DockerLauncher {
  return new ContainerLauncher(options);
}

class ContainerLauncher implements DockerLauncher {
  readonly kind = 'docker';
  readonly #options: DockerLauncherOptions;
  readonly #engine: Engine;
  readonly #containers: Containers;
  readonly #images: Images;
  readonly #usage: UsageSampler;
  readonly #running = new Map<string, ContainerRun>();
  readonly #closed = new AbortController();
  #watching: Promise<void> | undefined;
  #diskTimer: NodeJS.Timeout | undefined;

  constructor(options: DockerLauncherOptions) {
    this.#options = options;
    this.#engine = new Engine(options.socket);
    this.#containers = new Containers(this.#engine, options.instance);
    this.#images = new Images(this.#engine);
    this.#usage = new UsageSampler(this.#containers, () => [...this.#running.keys()]);
  }

  view(): typeof CONTAINER_VIEW {
    return CONTAINER_VIEW;
  }

  async prepare({ image }: LaunchOrder, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const both = AbortSignal.any([signal, this.#closed.signal]);
    await this.#wrapEngineError(() =>
      retryWhileUnreachable(() => this.#images.ensure(image, report, both), { signal: both, within: UNREACHABLE_MS }),
    );
  }

  async launch(order: LaunchOrder): Promise<Run> {
    return await this.#wrapEngineError(async () => {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const state = (await this.#findStarted(order)) ?? (await this.#startNew(order));
        if (state) return this.#runFor(state, order);
      }
      throw new LaunchError('StartFailed', `the container ${containerName(order.name)} cannot be started or replaced`);
    });
  }

  /** Waits until the daemon answers: a wrong guess would kill a script that runs, or start it twice. */
  async find(order: LaunchOrder): Promise<Run | undefined> {
    const state = await this.#findStarted(order, Infinity);
    return state && this.#runFor(state, order);
  }

  async remove(name: string): Promise<void> {
    await this.#retry(() => this.#containers.removeAll(name));
  }

  async removeOrphans(keep: ReadonlySet<string>): Promise<void> {
    await this.#retry(async () => {
      const orphans = (await this.#containers.list()).filter(({ attempt }) => !keep.has(attempt));
      for (const { id } of orphans) {
        await this.#running.get(id)?.signal('KILL');
        await this.#containers.remove(id);
      }
    });
  }

  usage(): { cpu: number; memory: number } {
    return this.#usage.now();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    clearTimeout(this.#diskTimer);
    this.#engine.close();
    await this.#watching;
  }

  /**
   * Finds the container of the attempt if it was ever started. A manager that died between create and start left a container
   * that is removed here, so that a start request that is still on its way cannot succeed: the engine serializes the
   * requests for one container, and the late one fails because the container does not exist.
   */
  async #findStarted({ name }: LaunchOrder, within = UNREACHABLE_MS): Promise<ContainerState | undefined> {
    for (;;) {
      const state = await this.#retry(() => this.#containers.inspect(containerName(name)), within);
      if (!state || state.startedAt !== undefined) return state;
      try {
        await this.#retry(() => this.#containers.removeStopped(state.id), within);
        return undefined;
      } catch (error) {
        // It was started meanwhile: inspect it again.
        if (!(error instanceof EngineError && error.code === 'conflict')) throw error;
      }
    }
  }

  /** Undefined if another manager created the container first, or if the container was not started: the caller tries again. */
  async #startNew(order: LaunchOrder): Promise<ContainerState | undefined> {
    const name = containerName(order.name);
    const { processes = PROCESSES, logBytes = LOG_BYTES, network } = this.#options;
    const podman = await this.#retry(() => this.#containers.isPodman());
    const spec = buildContainerSpec(order, { processes, logBytes, podman, ...(network !== undefined && { network }) });
    await openToContainer(order.directory);
    let id: string | undefined;
    try {
      id = await this.#retry(() => this.#containers.create(name, order.name, spec));
      await this.#containers.start(id);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (error.code === 'conflict' && id === undefined) return undefined;
      // The start is never retried: a short script may have ended already, and would run twice.
      if (error.code !== 'unreachable' || id === undefined) return await this.#removeUnstarted(order, error);
    }
    const created = id;
    const state = await this.#retry(() => this.#containers.inspect(created));
    return state ? await this.#findStarted(order) : toLostState(created);
  }

  /** Removes the container that could not be started, and throws the error. */
  async #removeUnstarted(order: LaunchOrder, error: EngineError): Promise<never> {
    await this.#findStarted(order);
    throw error;
  }

  #runFor(state: ContainerState, order: LaunchOrder): Run {
    const known = this.#running.get(state.id);
    if (known) return known;
    const run = new ContainerRun(state, order, {
      containers: this.#containers,
      takeOwnership: (ended) => this.#takeOwnership(ended),
      closed: this.#closed.signal,
    });
    this.#running.set(run.id, run);
    this.#watching ??= watchOutOfMemory(this.#containers, (id) => this.#onOutOfMemory(id), this.#closed.signal);
    this.#checkDiskLater();
    const forget = () => void this.#running.delete(run.id);
    void run.ended.then(forget, forget);
    return run;
  }

  #onOutOfMemory(id: string | undefined): void {
    const runs = [...this.#running.values()].filter((run) => id === undefined || id === run.id);
    // An error here also rejects `ended` of the run, which reports it.
    for (const run of runs) run.onOutOfMemory({ maybe: id === undefined }).catch(() => {});
  }

  /** An engine can bound the disk only on some file systems, so the use is sampled. */
  #checkDiskLater(): void {
    const { maxDisk } = this.#options;
    if (maxDisk === undefined || this.#diskTimer || this.#closed.signal.aborted) return;
    this.#diskTimer = setTimeout(() => void this.#checkDisk(maxDisk), DISK_INTERVAL_MS).unref();
  }

  async #checkDisk(maxDisk: number): Promise<void> {
    // A check fails if the engine does not answer. The next one covers for it.
    for (const run of this.#running.values()) await run.checkDisk(maxDisk).catch(() => undefined);
    this.#diskTimer = undefined;
    if (this.#running.size > 0) this.#checkDiskLater();
  }

  async #takeOwnership(order: LaunchOrder): Promise<void> {
    const { owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 } } = this.#options;
    try {
      const deps = { engine: this.#engine, containers: this.#containers, owner };
      await this.#retry(() => takeOwnership(order, deps));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      order.print(
        Buffer.from(`cannot change the owner of the files that the script left: ${error.message}\n`),
        Date.now(),
      );
    }
  }

  #retry<T>(task: () => Promise<T>, within = UNREACHABLE_MS): Promise<T> {
    return retryWhileUnreachable(task, { signal: this.#closed.signal, within });
  }

  async #wrapEngineError<T>(task: () => Promise<T>): Promise<T> {
    try {
      return await task();
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      throw new LaunchError('StartFailed', `the container cannot be started: ${error.message}`, { cause: error });
    }
  }
}

/** A container that was removed right after its start. The script may have run, so it counts as started. */
function toLostState(id: string): ContainerState {
  return { id, running: false, startedAt: Date.now(), exitCode: 0, outOfMemory: false };
}

/** Before a broken stream is opened again. Longer: a script continues longer after a process of it was killed. */
const REOPEN_MS = 1_000;

/**
 * Notifies when a container runs out of memory. While the rest of the script continues, only the engine's events report it.
 * Each new connection notifies once without an id: any container may have run out of memory while there was none.
 */
async function watchOutOfMemory(
  containers: Containers,
  notify: (id: string | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const events = await containers.outOfMemoryEvents(signal);
      notify(undefined);
      for await (const line of splitLines(events)) notify((JSON.parse(line) as { id?: string }).id);
    } catch (error) {
      if (!signal.aborted && !(error instanceof EngineError)) throw error;
    }
    await pause(REOPEN_MS, undefined, { signal }).catch(() => {});
  }
}
