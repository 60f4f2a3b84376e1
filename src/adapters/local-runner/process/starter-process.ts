import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Leader, LeaderEnd } from './leader.ts';
import type { SignalOrder, StartOrder } from './spawn-wrapper.ts';

export interface ToStarter {
  readonly id: number;
  readonly order: StartOrder | SignalOrder;
}

export type FromStarter =
  | { readonly kind: 'ready' }
  | { readonly kind: 'started'; readonly id: number; readonly pid: number }
  | { readonly kind: 'refused'; readonly id: number; readonly reason: string }
  | { readonly kind: 'ended'; readonly id: number; readonly end: LeaderEnd };

/** It ended before it said whether it had started the script. */
export class StarterGone extends Error {}

interface Started {
  readonly leader: PromiseWithResolvers<Leader>;
  readonly end: PromiseWithResolvers<LeaderEnd | undefined>;
  told: boolean;
}

const PROGRAM = fileURLToPath(new URL('./starter.ts', import.meta.url));

/** A starter, seen from the manager. Environments, and what is secret in them, reach it over the channel alone. */
export class StarterProcess {
  readonly #child: ChildProcess;
  readonly #started = new Map<number, Started>();
  readonly #begun = Promise.withResolvers<void>();
  readonly #gone: () => void;
  #next = 0;
  #ready = false;
  #over = false;

  /** `gone` is called before anybody who waits for a script hears of it. */
  constructor(gone: () => void) {
    this.#gone = gone;
    const cache = getCompileCacheDir();
    this.#child = fork(PROGRAM, [], {
      cwd: '/',
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: FromStarter) => this.#hear(message));
    for (const event of ['error', 'exit', 'disconnect'] as const) this.#child.once(event, () => this.#end());
    this.#child.unref();
    this.#child.channel?.unref();
  }

  /** Has it begun, and not ended? */
  get ready(): boolean {
    return this.#ready && !this.#over;
  }

  /** Resolves when it has begun, or is gone. */
  get begun(): Promise<void> {
    return this.#begun.promise;
  }

  /** Rejects with {@link StarterGone} when nobody knows whether the script was started. */
  start(order: StartOrder | SignalOrder): Promise<Leader> {
    const id = this.#next++;
    const started: Started = { leader: Promise.withResolvers(), end: Promise.withResolvers(), told: true };
    if (this.#over) return Promise.reject(new StarterGone());
    this.#started.set(id, started);
    this.#child.channel?.ref();
    const message: ToStarter = { id, order };
    // One that does not arrive was for a starter that is gone, and that is noticed for all of them at once.
    this.#child.send(message, () => {});
    return started.leader.promise;
  }

  /** What it started goes on. */
  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  #hear(message: FromStarter): void {
    if (message.kind === 'ready') {
      this.#ready = true;
      this.#begun.resolve();
      return;
    }
    const { id } = message;
    const started = this.#started.get(id);
    if (!started) return;
    if (message.kind === 'started') return started.leader.resolve(this.#leader(id, message.pid, started));
    started.told = false;
    this.#forget(id);
    if (message.kind === 'ended') started.end.resolve(message.end);
    else started.leader.reject(new Error(message.reason));
  }

  #leader(id: number, pid: number, started: Started): Leader {
    return {
      pid,
      end: started.end.promise,
      get told() {
        return started.told;
      },
      letGo: () => this.#forget(id),
    };
  }

  /** The event loop goes on for its sake as long as somebody waits for something. */
  #forget(id: number): void {
    this.#started.delete(id);
    if (this.#started.size === 0) this.#child.channel?.unref();
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#gone();
    for (const started of this.#started.values()) {
      started.told = false;
      started.leader.reject(new StarterGone());
      started.end.resolve(undefined);
    }
    this.#started.clear();
    this.#begun.resolve();
  }
}
