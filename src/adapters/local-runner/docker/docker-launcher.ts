import { setTimeout as pause } from 'node:timers/promises';
import { LaunchError, type Launcher, type LaunchOrder, type Run } from '../launcher.ts';
import { ContainerRun } from './container-run.ts';
import { containerName, containerSpec, VIEW } from './container-spec.ts';
import { type ContainerState, Containers } from './containers.ts';
import { dockerLines, Engine, EngineError, patiently } from './engine.ts';
import { Images } from './images.ts';
import { type Owner, openToContainer, takeOwnership } from './ownership.ts';
import { UsageSampler } from './usage.ts';

/** More than any pipeline of a script has, few enough that a fork bomb leaves the machine usable. */
const PROCESSES = 4_096;

/** What a script may print while no manager is there to read it. */
const LOG_BYTES = 128 * 2 ** 20;

/** How long an attempt that is about to start waits for a daemon that is away: a restart takes some seconds. */
const AWAY_MS = 60_000;

/** A container that is neither ours to start nor started is dropped and made again; more often than this it is not bad luck. */
const TRIES = 5;

export interface DockerLauncherOptions {
  readonly socket: string;
  /** Keeps two managers on one daemon apart: each sees the containers of its own. */
  readonly instance: string;
  readonly network?: string;
  readonly processes?: number;
  readonly logBytes?: number;
  /** Whose the files of scripts are in the end; by default of this process. */
  readonly owner?: Owner;
}

export interface DockerLauncher extends Launcher {
  /** Ends and drops the containers of this instance that belong to none of these attempts. */
  endStrays(keep: ReadonlySet<string>): Promise<void>;
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

  constructor(options: DockerLauncherOptions) {
    this.#options = options;
    this.#engine = new Engine(options.socket);
    this.#containers = new Containers(this.#engine, options.instance);
    this.#images = new Images(this.#engine);
    this.#usage = new UsageSampler(this.#containers, () => [...this.#running.keys()]);
  }

  view(): typeof VIEW {
    return VIEW;
  }

  async prepare({ image }: LaunchOrder, report: (message: string) => void, signal: AbortSignal): Promise<void> {
    const both = AbortSignal.any([signal, this.#closed.signal]);
    await this.#orLaunchError(() =>
      patiently(() => this.#images.ensure(image, report, both), { signal: both, within: AWAY_MS }),
    );
  }

  async launch(order: LaunchOrder): Promise<Run> {
    return await this.#orLaunchError(async () => {
      for (let tries = 0; tries < TRIES; tries++) {
        const state = (await this.#started(order)) ?? (await this.#startNew(order));
        if (state) return this.#runOf(state, order);
      }
      throw new LaunchError('StartFailed', `the container ${containerName(order.name)} cannot be started or replaced`);
    });
  }

  /** Waits for a daemon that is away: nobody else knows, and a guess would end a script that runs, or run it twice. */
  async find(order: LaunchOrder): Promise<Run | undefined> {
    const state = await this.#started(order, Infinity);
    return state && this.#runOf(state, order);
  }

  async remove(name: string): Promise<void> {
    await this.#patiently(() => this.#containers.removeAll(name));
  }

  async endStrays(keep: ReadonlySet<string>): Promise<void> {
    await this.#patiently(async () => {
      const strays = (await this.#containers.list()).filter(({ attempt }) => !keep.has(attempt));
      for (const { id } of strays) {
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
    this.#engine.close();
    await this.#watching;
  }

  /**
   * The container of the attempt, if it was ever started. One that was only made, because a manager ended in between, is
   * dropped, so that no request of the past can start it any more: the engine does one thing at a time to a container,
   * and whoever comes too late finds none.
   */
  async #started({ name }: LaunchOrder, within = AWAY_MS): Promise<ContainerState | undefined> {
    for (;;) {
      const state = await this.#patiently(() => this.#containers.inspect(containerName(name)), within);
      if (!state || state.startedAt !== undefined) return state;
      try {
        await this.#patiently(() => this.#containers.drop(state.id), within);
        return undefined;
      } catch (error) {
        // It was started after all: look again.
        if (!(error instanceof EngineError && error.code === 'conflict')) throw error;
      }
    }
  }

  /** Undefined when somebody else was faster, or nobody knows what became of it: look again. */
  async #startNew(order: LaunchOrder): Promise<ContainerState | undefined> {
    const name = containerName(order.name);
    const { processes = PROCESSES, logBytes = LOG_BYTES, network } = this.#options;
    const podman = await this.#patiently(() => this.#containers.podman());
    const spec = containerSpec(order, { processes, logBytes, podman, ...(network !== undefined && { network }) });
    await openToContainer(order.directory);
    let id: string | undefined;
    try {
      id = await this.#patiently(() => this.#containers.create(name, order.name, spec));
      await this.#containers.start(id);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      if (error.code === 'conflict' && id === undefined) return undefined;
      // Never asked for a second time: a short script that had run by then would run again.
      if (error.code !== 'unreachable' || id === undefined) return await this.#refused(order, error);
    }
    const made = id;
    const state = await this.#patiently(() => this.#containers.inspect(made));
    return state ? await this.#started(order) : gone(made);
  }

  /** Drops what could not be started. */
  async #refused(order: LaunchOrder, error: EngineError): Promise<never> {
    await this.#started(order);
    throw error;
  }

  #runOf(state: ContainerState, order: LaunchOrder): Run {
    const known = this.#running.get(state.id);
    if (known) return known;
    const run = new ContainerRun(state, order, {
      containers: this.#containers,
      settle: (settled) => this.#settle(settled),
      closed: this.#closed.signal,
    });
    this.#running.set(run.id, run);
    this.#watching ??= watchMemory(this.#containers, (id) => this.#ranOutOfMemory(id), this.#closed.signal);
    const over = () => void this.#running.delete(run.id);
    void run.ended.then(over, over);
    return run;
  }

  #ranOutOfMemory(id: string | undefined): void {
    const runs = [...this.#running.values()].filter((run) => id === undefined || id === run.id);
    // What goes wrong here goes wrong for its end as well, and is told there.
    for (const run of runs) run.ranOutOfMemory({ maybe: id === undefined }).catch(() => {});
  }

  async #settle(order: LaunchOrder): Promise<void> {
    const { owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 } } = this.#options;
    try {
      const parts = { engine: this.#engine, containers: this.#containers, owner };
      await this.#patiently(() => takeOwnership(order, parts));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      order.print(Buffer.from(`the files that the script left stay as they are: ${error.message}\n`), Date.now());
    }
  }

  #patiently<T>(task: () => Promise<T>, within = AWAY_MS): Promise<T> {
    return patiently(task, { signal: this.#closed.signal, within });
  }

  async #orLaunchError<T>(task: () => Promise<T>): Promise<T> {
    try {
      return await task();
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      throw new LaunchError('StartFailed', `the container cannot be started: ${error.message}`, { cause: error });
    }
  }
}

/** Somebody removed it right after it was started: it may have run, so it counts as started. */
function gone(id: string): ContainerState {
  return { id, running: false, startedAt: Date.now(), exitCode: 0, outOfMemory: false };
}

/** Before a stream that broke off is opened again. */
const AGAIN_MS = 1_000;

/**
 * Says when a container runs out of memory: only the engine's events tell, as long as what is left of the script goes on.
 * Without an id: any may have, while nobody listened.
 */
async function watchMemory(
  containers: Containers,
  tell: (id: string | undefined) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const events = await containers.memoryEvents(signal);
      tell(undefined);
      for await (const line of dockerLines(events)) tell((JSON.parse(line) as { id?: string }).id);
    } catch (error) {
      if (!signal.aborted && !(error instanceof EngineError)) throw error;
    }
    await pause(AGAIN_MS, undefined, { signal }).catch(() => {});
  }
}
