import { type Leader, startHere } from './leader.ts';
import type { SignalOrder, StartOrder } from './spawn-wrapper.ts';
import { StarterProcess } from './starter-process.ts';

/** Before another starter is tried where one could not begin: scripts are started without it, only more slowly. */
const AGAIN_MS = 60_000;

/** A process that sends a signal is given up after this time: a script can stop one that has its user. */
const SIGNAL_MS = 5_000;

/** Starts scripts through a small process that begins with the first of them. Nobody waits for it: until then, directly. */
export class Starting {
  readonly #againMs: number;
  #starter: StarterProcess | undefined;
  #notBefore = 0;
  #closed = false;

  constructor(againMs = AGAIN_MS) {
    this.#againMs = againMs;
  }

  async start(order: StartOrder): Promise<Leader> {
    if (this.#closed) throw new Error('the manager stops');
    if (this.#starter?.ready) return this.#starter.start(order);
    this.#begin();
    return startHere(order);
  }

  /** Resolves to true when the kernel has taken the signal. Works after {@link close} too: what runs can always be ended. */
  async signal(order: SignalOrder): Promise<boolean> {
    try {
      const leader = await (this.#starter?.ready ? this.#starter.start(order) : startHere(order));
      const patience = setTimeout(() => leader.told && process.kill(leader.pid, 'SIGKILL'), SIGNAL_MS);
      const end = await leader.end;
      clearTimeout(patience);
      return end?.exitCode === 0;
    } catch {
      // No process could be started, or the starter has gone: whoever ends a script tries again.
      return false;
    }
  }

  /** Begins before the first script comes, and resolves when it has. */
  async warm(): Promise<void> {
    this.#begin();
    // The event loop does not go on for the sake of a starter that nobody has asked for anything.
    const patience = setTimeout(() => undefined, AGAIN_MS);
    await this.#starter?.begun;
    clearTimeout(patience);
  }

  close(): void {
    this.#closed = true;
    this.#starter?.close();
  }

  #begin(): void {
    if (this.#starter || this.#closed || performance.now() < this.#notBefore) return;
    const begunAt = performance.now();
    this.#starter = new StarterProcess(() => {
      this.#starter = undefined;
      this.#notBefore = begunAt + this.#againMs;
    });
  }
}
