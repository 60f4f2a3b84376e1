import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { devNull } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Slots } from '../../lib/concurrency.ts';
import type { Network } from '../../lib/http/index.ts';
import { type FromWorker, type Task, type TaskResult, type ToWorker, unwrapSecrets } from './channel.ts';
import { StagingError } from './errors.ts';
import type { Staging, UploadPlan } from './staging.ts';

interface StagingOptions {
  /** How many processes. */
  readonly workers: number;
  /** The operator's networks, in which stores of users may be although they are not public. */
  readonly networks: readonly Network[];
}

interface StagingWorkers extends Staging {
  /** Starts the workers in advance. Otherwise the first order starts them. */
  warm(): Promise<void>;
}

/** Concurrent orders of one worker, which mostly waits for stores. More would only share the same bandwidth. */
const ORDERS_EACH = 8;

/** Moves files in separate processes, so that neither their load nor a crash affects the manager. */
export function createStaging({ workers, networks }: StagingOptions): StagingWorkers {
  const pool = new Pool(workers, networks);
  return {
    warm: () => pool.warm(),
    async fetch(order) {
      await pool.perform({ kind: 'fetch', order });
    },
    plan: async (...parameters) => (await pool.perform({ kind: 'plan', parameters })) as UploadPlan,
    upload: async (order) => (await pool.perform({ kind: 'upload', order })) as string | undefined,
    pack: async (...parameters) => (await pool.perform({ kind: 'pack', parameters })) as boolean,
    close: () => pool.close(),
  };
}

class Pool {
  readonly #size: number;
  readonly #networks: readonly Network[];
  readonly #slots: Slots;
  #workers: WorkerProcess[] = [];
  #closed = false;

  constructor(size: number, networks: readonly Network[]) {
    this.#size = size;
    this.#networks = networks;
    this.#slots = new Slots(size * ORDERS_EACH);
  }

  async warm(): Promise<void> {
    if (this.#closed) throw stopping();
    this.#fill();
    try {
      await Promise.all(this.#workers.map((worker) => worker.ready));
    } catch (cause) {
      throw this.#closed ? stopping() : workerLost(cause);
    }
  }

  perform(task: Task): Promise<TaskResult> {
    return this.#slots.use(() => this.#perform(task));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  async #perform(task: Task): Promise<TaskResult> {
    try {
      return await this.#once(task);
    } catch (error) {
      if (!(error instanceof WorkerGone)) throw error;
    }
    // All tasks can be repeated. Part of an upload may already have succeeded.
    const again: Task = task.kind === 'upload' ? { ...task, order: { ...task.order, resumed: true } } : task;
    try {
      return await this.#once(again);
    } catch (error) {
      if (!(error instanceof WorkerGone)) throw error;
      throw this.#closed ? stopping() : workerLost(error);
    }
  }

  async #once(task: Task): Promise<TaskResult> {
    if (this.#closed) throw stopping();
    return this.#choose().run(task);
  }

  /** The least busy worker; among equals the least recently chosen. */
  #choose(): WorkerProcess {
    this.#fill();
    const [first, ...others] = this.#workers;
    if (!first) throw workerLost(new Error('no worker is configured'));
    const chosen = others.reduce((least, worker) => (worker.load < least.load ? worker : least), first);
    this.#workers = [...this.#workers.filter((worker) => worker !== chosen), chosen];
    return chosen;
  }

  #fill(): void {
    while (this.#workers.length < this.#size) this.#start();
  }

  #start(): void {
    const worker = new WorkerProcess(this.#networks, () => {
      this.#workers = this.#workers.filter((each) => each !== worker);
      // A worker that never became ready is not restarted here: the next order tries again and reports the failure.
      if (worker.wasReady && !this.#closed) this.#fill();
    });
    this.#workers.push(worker);
  }
}

const stopping = () => new StagingError('staging-unavailable', 'files cannot be moved: the manager is stopping');

function workerLost(cause: unknown): StagingError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `the process that moves files ended (${why}): see its output in the manager's log`;
  return new StagingError('staging-unavailable', message, { cause });
}

const PROGRAM = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** The environment variables of a worker. Proxies are excluded: behind a proxy, address checks have no effect. */
const KEPT = ['PATH', 'HOME', 'TZ', 'NODE_EXTRA_CA_CERTS'];

/** Milliseconds after which a disconnected worker is killed. Longer than any system call that is not stuck. */
const LAST_DEADLINE = 5_000;

/** The worker ended before the task was complete; it may have done part of it. */
class WorkerGone extends Error {}

interface Pending {
  readonly resolve: (result: TaskResult) => void;
  readonly reject: (error: Error) => void;
}

/** The manager's handle of a worker. Keys are sent only over the IPC channel. */
class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #ended: () => void;
  #next = 0;
  #wasReady = false;
  #end: string | undefined;

  /** `ended` is called before the promises of pending tasks reject. */
  constructor(networks: readonly Network[], ended: () => void) {
    this.#ended = ended;
    this.#child = fork(PROGRAM, [], {
      serialization: 'advanced',
      env: environment(),
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: FromWorker) => this.#onMessage(message));
    this.#child.once('error', (error) => this.#onEnd(error.message));
    this.#child.once('exit', (code, signal) => this.#onEnd(signal ?? `exit code ${code}`));
    this.#ready.promise.catch(() => {});
    this.#send({ kind: 'begin', networks });
  }

  /** Resolves when the worker has loaded everything; rejects if it ends before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Whether the worker was ever ready. */
  get wasReady(): boolean {
    return this.#wasReady;
  }

  /** The number of running tasks. */
  get load(): number {
    return this.#pending.size;
  }

  run(task: Task): Promise<TaskResult> {
    if (this.#end !== undefined) return Promise.reject(new WorkerGone(this.#end));
    const message: ToWorker = { kind: 'task', id: this.#next++, task: unwrapSecrets(task) };
    const { promise, resolve, reject } = Promise.withResolvers<TaskResult>();
    this.#pending.set(message.id, { resolve, reject });
    this.#send(message);
    return promise;
  }

  async close(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    const killTimer = setTimeout(() => this.#child.kill('SIGKILL'), LAST_DEADLINE);
    await this.#gone.promise;
    clearTimeout(killTimer);
  }

  /** Send errors are ignored: they mean that the worker has ended, which `#onEnd` reports to all tasks. */
  #send(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #onMessage(message: FromWorker): void {
    if (message.kind === 'ready') {
      this.#wasReady = true;
      this.#ready.resolve();
      return;
    }
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.kind === 'done') pending?.resolve(message.result);
    else pending?.reject(new StagingError(message.code, message.message));
  }

  #onEnd(end: string): void {
    if (this.#end !== undefined) return;
    this.#end = end;
    this.#ended();
    this.#ready.reject(new WorkerGone(end));
    for (const { reject } of this.#pending.values()) reject(new WorkerGone(end));
    this.#pending.clear();
    this.#gone.resolve();
  }
}

function environment(): NodeJS.ProcessEnv {
  const kept = KEPT.map((name) => [name, process.env[name]] as const).filter(([, value]) => value !== undefined);
  // Most of a worker's start is compiling the S3 client, so it uses the compile cache of the launcher.
  const cache = getCompileCacheDir();
  return {
    ...Object.fromEntries(kept),
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
    // The AWS configuration of an administrator must not change where files of users are uploaded.
    AWS_CONFIG_FILE: devNull,
    AWS_SHARED_CREDENTIALS_FILE: devNull,
  };
}
