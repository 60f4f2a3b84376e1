/**
 * Starts scripts through a small child process of the manager, the starter (`starter-program.ts`). Starting a process
 * copies the page tables of its parent, which takes long for a large manager. The starter begins with the first script and
 * nobody waits for it: until it is ready, the manager starts scripts itself.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type SignalOrder, type StartOrder, spawnAsChild, type WrapperExit, type WrapperHandle } from './wrapper.ts';

/** How long to wait before another starter is tried. Without one, scripts still start, only more slowly. */
const RETRY_AFTER_MS = 60_000;

/** A process that sends a signal is killed after this time: a script can stop a process that has its user id. */
const SIGNAL_TIMEOUT_MS = 5_000;

export class ScriptStarter {
  readonly #retryAfterMs: number;
  #starter: StarterProcess | undefined;
  #notBefore = 0;
  #closed = false;

  constructor(retryAfterMs = RETRY_AFTER_MS) {
    this.#retryAfterMs = retryAfterMs;
  }

  async start(order: StartOrder): Promise<WrapperHandle> {
    if (this.#closed) throw new Error('the manager is stopping');
    if (this.#starter?.ready) return this.#starter.start(order);
    this.#begin();
    return spawnAsChild(order);
  }

  /** Resolves to true if the kernel accepted the signal. Works after {@link close} too, so that scripts can always be ended. */
  async signal(order: SignalOrder): Promise<boolean> {
    try {
      const sender = await (this.#starter?.ready ? this.#starter.start(order) : spawnAsChild(order));
      const timeout = setTimeout(() => sender.exitPending && process.kill(sender.pid, 'SIGKILL'), SIGNAL_TIMEOUT_MS);
      const exit = await sender.exit;
      clearTimeout(timeout);
      return exit?.exitCode === 0;
    } catch {
      // No process could be started, or the starter exited. The caller tries again.
      return false;
    }
  }

  /** Starts the starter before the first script, and resolves when it is ready. */
  async warm(): Promise<void> {
    this.#begin();
    // An idle starter does not keep the event loop alive; this timer does.
    const timeout = setTimeout(() => undefined, RETRY_AFTER_MS);
    await this.#starter?.startedUp;
    clearTimeout(timeout);
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
      this.#notBefore = begunAt + this.#retryAfterMs;
    });
  }
}

export interface StarterRequest {
  readonly id: number;
  readonly order: StartOrder | SignalOrder;
}

export type StarterMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'started'; readonly id: number; readonly pid: number }
  | { readonly kind: 'refused'; readonly id: number; readonly reason: string }
  | { readonly kind: 'ended'; readonly id: number; readonly end: WrapperExit };

/** The starter exited before it reported whether it had started the script. */
export class StarterExited extends Error {}

interface PendingStart {
  readonly wrapper: PromiseWithResolvers<WrapperHandle>;
  readonly exit: PromiseWithResolvers<WrapperExit | undefined>;
  exitPending: boolean;
}

const PROGRAM = fileURLToPath(new URL('./starter-program.ts', import.meta.url));

/** The manager's side of a starter. Environments, with the secrets in them, reach it through the IPC channel only. */
class StarterProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, PendingStart>();
  readonly #startedUp = Promise.withResolvers<void>();
  readonly #onExit: () => void;
  #next = 0;
  #ready = false;
  #exited = false;

  /** `onExit` is called before the pending starts are rejected. */
  constructor(onExit: () => void) {
    this.#onExit = onExit;
    const cache = getCompileCacheDir();
    this.#child = fork(PROGRAM, [], {
      cwd: '/',
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: StarterMessage) => this.#onMessage(message));
    for (const event of ['error', 'exit', 'disconnect'] as const) this.#child.once(event, () => this.#fail());
    this.#child.unref();
    this.#child.channel?.unref();
  }

  get ready(): boolean {
    return this.#ready && !this.#exited;
  }

  /** Resolves when the starter is ready, or has exited. */
  get startedUp(): Promise<void> {
    return this.#startedUp.promise;
  }

  /** Rejects with {@link StarterExited} if it is unknown whether the script was started. */
  start(order: StartOrder | SignalOrder): Promise<WrapperHandle> {
    const id = this.#next++;
    const pending: PendingStart = {
      wrapper: Promise.withResolvers(),
      exit: Promise.withResolvers(),
      exitPending: true,
    };
    if (this.#exited) return Promise.reject(new StarterExited());
    this.#pending.set(id, pending);
    this.#child.channel?.ref();
    const message: StarterRequest = { id, order };
    // Sending fails only if the starter has exited, which #fail handles for all pending starts.
    this.#child.send(message, () => {});
    return pending.wrapper.promise;
  }

  /** The scripts that it started continue. */
  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  #onMessage(message: StarterMessage): void {
    if (message.kind === 'ready') {
      this.#ready = true;
      this.#startedUp.resolve();
      return;
    }
    const { id } = message;
    const pending = this.#pending.get(id);
    if (!pending) return;
    if (message.kind === 'started') return pending.wrapper.resolve(this.#toHandle(id, message.pid, pending));
    pending.exitPending = false;
    this.#forget(id);
    if (message.kind === 'ended') pending.exit.resolve(message.end);
    else pending.wrapper.reject(new Error(message.reason));
  }

  #toHandle(id: number, pid: number, pending: PendingStart): WrapperHandle {
    return {
      pid,
      exit: pending.exit.promise,
      get exitPending() {
        return pending.exitPending;
      },
      detach: () => this.#forget(id),
    };
  }

  /** The channel keeps the event loop alive only while something is pending. */
  #forget(id: number): void {
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#child.channel?.unref();
  }

  #fail(): void {
    if (this.#exited) return;
    this.#exited = true;
    this.#onExit();
    for (const pending of this.#pending.values()) {
      pending.exitPending = false;
      pending.wrapper.reject(new StarterExited());
      pending.exit.resolve(undefined);
    }
    this.#pending.clear();
    this.#startedUp.resolve();
  }
}
