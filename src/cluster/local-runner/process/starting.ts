import { type Leader, startHere } from './leader.ts';
import type { StartOrder } from './spawn-wrapper.ts';
import { StarterProcess } from './starter-process.ts';

/** Before another starter is tried where one could not begin: scripts are started without it, only more slowly. */
const AGAIN_MS = 60_000;

/** Starts scripts through a small process that begins with the first of them. Nobody waits for it: until then, directly. */
export class Starting {
  #starter: StarterProcess | undefined;
  #notBefore = 0;
  #closed = false;

  async start(order: StartOrder): Promise<Leader> {
    if (this.#closed) throw new Error('the manager stops');
    if (this.#starter?.ready) return this.#starter.start(order);
    this.#begin();
    return startHere(order);
  }

  close(): void {
    this.#closed = true;
    this.#starter?.close();
  }

  #begin(): void {
    if (this.#starter || this.#closed || performance.now() < this.#notBefore) return;
    const starter = new StarterProcess();
    this.#starter = starter;
    const begunAt = performance.now();
    void starter.gone.then(() => {
      this.#starter = undefined;
      this.#notBefore = begunAt + AGAIN_MS;
    });
  }
}
