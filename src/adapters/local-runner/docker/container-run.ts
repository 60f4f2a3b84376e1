import { uptime } from 'node:os';
import type { LaunchOrder, Run, RunEnd } from '../launcher.ts';
import type { ContainerState, Containers } from './containers.ts';
import { EngineError, patiently } from './engine.ts';
import { LogReader } from './logs.ts';

interface RunParts {
  readonly containers: Containers;
  /** Gives the files that it left to the manager. */
  readonly settle: (order: LaunchOrder, signal: AbortSignal) => Promise<void>;
  /** Aborted when the launcher lets go. */
  readonly closed: AbortSignal;
}

/** A container that was started at some time, by this process or one before it. */
export class ContainerRun implements Run {
  readonly id: string;
  readonly startedAt: number;
  readonly ended: Promise<RunEnd>;
  readonly #order: LaunchOrder;
  readonly #parts: RunParts;
  #signalled = false;
  #interrupted: boolean;

  constructor(state: ContainerState, order: LaunchOrder, parts: RunParts) {
    this.id = state.id;
    this.startedAt = state.startedAt ?? Date.now();
    this.#order = order;
    this.#parts = parts;
    this.#interrupted = this.startedAt < Date.now() - uptime() * 1_000;
    this.ended = this.#end().catch(async (error: unknown) => {
      // Nobody is told of an end that we did not stay to see.
      if (parts.closed.aborted) return await new Promise<never>(() => {});
      throw error;
    });
    this.ended.catch(() => {});
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    const { containers, closed } = this.#parts;
    this.#signalled = true;
    await patiently(() => containers.kill(this.id, `SIG${name}`), { signal: closed, within: Infinity });
  }

  /**
   * The kernel has ended one of its processes. The others do not know what they miss, so they go too. `maybe`: nobody
   * listened, ask.
   */
  async ranOutOfMemory({ maybe }: { maybe: boolean }): Promise<void> {
    const { containers } = this.#parts;
    if (maybe && !(await this.#certainly(() => containers.has('oom', this)))) return;
    await this.#certainly(() => containers.kill(this.id, 'SIGKILL'));
  }

  async #end(): Promise<RunEnd> {
    const { containers, settle, closed } = this.#parts;
    const log = new LogReader(containers, this.id, { state: this.#order.directory.state, print: this.#order.print });
    try {
      const stopped = new AbortController();
      const [state] = await Promise.all([
        this.#stopped().finally(() => stopped.abort()),
        log.follow(AbortSignal.any([closed, stopped.signal])),
      ]);
      const signalled = state !== undefined && looksSignalled(state) && (await this.#wasSignalled());
      await log.finish(closed);
      await settle(this.#order, closed);
      return runEnd(state, { signalled, interrupted: this.#interrupted, now: Date.now() });
    } finally {
      log.close();
    }
  }

  async #wasSignalled(): Promise<boolean> {
    if (this.#signalled) return true;
    return await this.#certainly(() => this.#parts.containers.has('kill', this));
  }

  /** Its last state; undefined once it is really gone. */
  async #stopped(): Promise<ContainerState | undefined> {
    const { containers, closed } = this.#parts;
    for (;;) {
      const state = await this.#certainly(() => containers.inspect(this.id));
      if (!state?.running) return state;
      try {
        await containers.wait(this.id, closed);
      } catch (error) {
        if (closed.aborted || !(error instanceof EngineError)) throw error;
        this.#interrupted = true;
      }
    }
  }

  /** Asks until there is an answer: a daemon that is away says nothing about its containers. */
  async #certainly<T>(task: () => Promise<T>): Promise<T> {
    const whenAway = () => {
      this.#interrupted = true;
    };
    return await patiently(task, { signal: this.#parts.closed, within: Infinity, whenAway });
  }
}

/** What a shell and the init process say of somebody who was ended by a signal: 128 and its number. */
const SIGNALS: Readonly<Record<number, string>> = { 137: 'SIGKILL', 143: 'SIGTERM' };

/** Is its exit code that of a signal, if there was one? */
function looksSignalled({ exitCode }: ContainerState): boolean {
  return exitCode in SIGNALS;
}

/** What Docker writes down of a container that was gone when the daemon came back: it knows no better. */
const GONE_MEANWHILE = 255;

interface Circumstances {
  /** Somebody has sent it a signal from outside. */
  readonly signalled: boolean;
  /** The daemon was away while it ran, or the machine was started after it. */
  readonly interrupted: boolean;
  readonly now: number;
}

/**
 * How a script ended. Its own `exit 137` is an exit code like any other: only when there was somebody to end it is it
 * taken for a signal. Undefined: the container is gone.
 */
export function runEnd(state: ContainerState | undefined, { signalled, interrupted, now }: Circumstances): RunEnd {
  if (!state) return { at: now, cause: 'lost' };
  const { exitCode, outOfMemory, finishedAt: at = now } = state;
  // A script that copes with the loss of one of its processes has not run out of memory.
  if (outOfMemory && exitCode !== 0) return { at, exitCode, cause: 'out-of-memory' };
  if (interrupted && exitCode === GONE_MEANWHILE) return { at, cause: 'lost' };
  const signal = SIGNALS[exitCode];
  if (signal && (signalled || interrupted)) return { at, cause: 'signal', signal };
  return { at, exitCode };
}
