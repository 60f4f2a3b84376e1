import { uptime } from 'node:os';
import { measureDiskUse } from '../disk-use.ts';
import type { LaunchOrder, Run, RunEnd } from '../launcher.ts';
import type { ContainerState, Containers } from './containers.ts';
import { EngineError, retryWhileUnreachable } from './engine.ts';
import { LogReader } from './logs.ts';

interface ContainerRunDeps {
  readonly containers: Containers;
  /** Makes the manager the owner of the files that the script left. */
  readonly takeOwnership: (order: LaunchOrder, signal: AbortSignal) => Promise<void>;
  /** Aborted when the launcher is closed. */
  readonly closed: AbortSignal;
}

/** A container that was started, by this manager or by an earlier one. */
export class ContainerRun implements Run {
  readonly id: string;
  readonly startedAt: number;
  readonly ended: Promise<RunEnd>;
  readonly #order: LaunchOrder;
  readonly #deps: ContainerRunDeps;
  #signalled = false;
  #diskFull = false;
  #interrupted: boolean;

  constructor(state: ContainerState, order: LaunchOrder, deps: ContainerRunDeps) {
    this.id = state.id;
    this.startedAt = state.startedAt ?? Date.now();
    this.#order = order;
    this.#deps = deps;
    this.#interrupted = this.startedAt < Date.now() - uptime() * 1_000;
    this.ended = this.#follow().catch(async (error: unknown) => {
      // A closed launcher reports no end: the script continues, and the next manager follows it.
      if (deps.closed.aborted) return await new Promise<never>(() => {});
      throw error;
    });
    this.ended.catch(() => {});
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    const { containers, closed } = this.#deps;
    this.#signalled = true;
    await retryWhileUnreachable(() => containers.kill(this.id, `SIG${name}`), { signal: closed, within: Infinity });
  }

  /**
   * Kills the container after the kernel killed one of its processes for lack of memory, since the script is incomplete
   * without it. With `maybe`, events may have been missed: the engine is asked first whether it happened.
   */
  async onOutOfMemory({ maybe }: { maybe: boolean }): Promise<void> {
    const { containers } = this.#deps;
    if (maybe && !(await this.#retry(() => containers.hasEvent('oom', this)))) return;
    await this.#retry(() => containers.kill(this.id, 'SIGKILL'));
  }

  /** Kills the container if the script has more bytes on the disk than that. */
  async checkDisk(most: number): Promise<void> {
    const { input, output } = this.#order.directory;
    const files = await measureDiskUse([input, output], most);
    if (files <= most && files + (await this.#deps.containers.writtenBytes(this.id)) <= most) return;
    this.#diskFull = true;
    await this.#retry(() => this.#deps.containers.kill(this.id, 'SIGKILL'));
  }

  async #follow(): Promise<RunEnd> {
    const { containers, takeOwnership, closed } = this.#deps;
    const log = new LogReader(containers, this.id, { state: this.#order.directory.state, print: this.#order.print });
    try {
      const stopped = new AbortController();
      const [state] = await Promise.all([
        this.#waitUntilStopped().finally(() => stopped.abort()),
        log.follow(AbortSignal.any([closed, stopped.signal])),
      ]);
      const signalled = state !== undefined && hasSignalExitCode(state) && (await this.#wasSignalled());
      await log.finish(closed);
      await takeOwnership(this.#order, closed);
      const end = toRunEnd(state, { signalled, interrupted: this.#interrupted, now: Date.now() });
      return this.#diskFull && end.exitCode === undefined ? { at: end.at, cause: 'disk-full' } : end;
    } finally {
      log.close();
    }
  }

  async #wasSignalled(): Promise<boolean> {
    if (this.#signalled || this.#diskFull) return true;
    return await this.#retry(() => this.#deps.containers.hasEvent('kill', this));
  }

  /** Returns the final state, or undefined if the container was removed. */
  async #waitUntilStopped(): Promise<ContainerState | undefined> {
    const { containers, closed } = this.#deps;
    for (;;) {
      const state = await this.#retry(() => containers.inspect(this.id));
      if (!state?.running) return state;
      try {
        await containers.wait(this.id, closed);
      } catch (error) {
        if (closed.aborted || !(error instanceof EngineError)) throw error;
        this.#interrupted = true;
      }
    }
  }

  /** Retries without a time limit, because only the daemon knows what became of the container. */
  async #retry<T>(task: () => Promise<T>): Promise<T> {
    const onUnreachable = () => {
      this.#interrupted = true;
    };
    return await retryWhileUnreachable(task, { signal: this.#deps.closed, within: Infinity, onUnreachable });
  }
}

/** A shell and the init process report a process that a signal ended as 128 plus the number of the signal. */
const SIGNALS: Readonly<Record<number, string>> = { 137: 'SIGKILL', 143: 'SIGTERM' };

function hasSignalExitCode({ exitCode }: ContainerState): boolean {
  return exitCode in SIGNALS;
}

/** What Docker records for a container that ended while the daemon was down: the real exit code is lost. */
const UNKNOWN_EXIT_CODE = 255;

interface Circumstances {
  /** The container was sent a signal from outside. */
  readonly signalled: boolean;
  /** The daemon was unreachable while the container ran, or the machine was restarted since. */
  readonly interrupted: boolean;
  readonly now: number;
}

/**
 * How a script ended. A script may call `exit 137` itself, so the code counts as a signal only if one may have been sent.
 * A state of undefined means that the container was removed.
 */
export function toRunEnd(state: ContainerState | undefined, { signalled, interrupted, now }: Circumstances): RunEnd {
  if (!state) return { at: now, cause: 'lost' };
  const { exitCode, outOfMemory, startedAt = 0, finishedAt = now } = state;
  // On a busy host, the engine may note the start of a short script after its end.
  const at = Math.max(startedAt, finishedAt);
  // A script that succeeds although one of its processes was killed did not run out of memory.
  if (outOfMemory && exitCode !== 0) return { at, exitCode, cause: 'out-of-memory' };
  if (interrupted && exitCode === UNKNOWN_EXIT_CODE) return { at, cause: 'lost' };
  const signal = SIGNALS[exitCode];
  if (signal && (signalled || interrupted)) return { at, cause: 'signal', signal };
  return { at, exitCode };
}
