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
  /** The operator's networks, where users may have stores that are not public. */
  readonly networks: readonly Network[];
}

interface StagingWorkers extends Staging {
  /** Starts the workers before they are needed. Until then, or the first order, there are none. */
  warm(): Promise<void>;
}

/** Orders that one worker works on at the same time: mostly it waits for stores. More would only divide the same line. */
const ORDERS_EACH = 8;

/** Moves files in processes of their own, so that neither the bytes nor a crash are felt in this one. */
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
      throw this.#closed ? stopping() : lost(cause);
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
    // Everything can be done twice; of an upload something may have arrived.
    const again: Task = task.kind === 'upload' ? { ...task, order: { ...task.order, resumed: true } } : task;
    try {
      return await this.#once(again);
    } catch (error) {
      if (!(error instanceof WorkerGone)) throw error;
      throw this.#closed ? stopping() : lost(error);
    }
  }

  async #once(task: Task): Promise<TaskResult> {
    if (this.#closed) throw stopping();
    return this.#choose().run(task);
  }

  /** The least busy; of equals the one that was chosen longest ago. */
  #choose(): WorkerProcess {
    this.#fill();
    const [first, ...others] = this.#workers;
    if (!first) throw lost(new Error('no worker is configured'));
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
      // One that never came up would not come up now either: the next order tries, and says so if it cannot.
      if (worker.begun && !this.#closed) this.#fill();
    });
    this.#workers.push(worker);
  }
}

const stopping = () => new StagingError('staging-unavailable', 'no files are moved any more: the manager is stopping');

function lost(cause: unknown): StagingError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `the process that moves files ended (${why}): look into the manager's log for its last words`;
  return new StagingError('staging-unavailable', message, { cause });
}

const PROGRAM = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** What a worker needs to know of the world. Proxies are not among it: behind one, checking an address means nothing. */
const KEPT = ['PATH', 'HOME', 'TZ', 'NODE_EXTRA_CA_CERTS'];

/** After this a worker that was let go of is made to go. Longer than any system call that is not stuck. */
const LAST_DEADLINE = 5_000;

/** The worker ended before it had done the task, and it may have done part of it. */
class WorkerGone extends Error {}

interface Pending {
  readonly resolve: (result: TaskResult) => void;
  readonly reject: (error: Error) => void;
}

/** One worker, seen from the manager. Keys reach it over the channel alone. */
class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #pending = new Map<number, Pending>();
  readonly #ready = Promise.withResolvers<void>();
  readonly #gone = Promise.withResolvers<void>();
  readonly #ended: () => void;
  #next = 0;
  #begun = false;
  #end: string | undefined;

  /** `ended` is called before anybody who waits for a task hears of it. */
  constructor(networks: readonly Network[], ended: () => void) {
    this.#ended = ended;
    this.#child = fork(PROGRAM, [], {
      serialization: 'advanced',
      env: environment(),
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: FromWorker) => this.#hear(message));
    this.#child.once('error', (error) => this.#over(error.message));
    this.#child.once('exit', (code, signal) => this.#over(signal ?? `exit code ${code}`));
    this.#ready.promise.catch(() => {});
    this.#tell({ kind: 'begin', networks });
  }

  /** Resolves when it has loaded everything; rejects when it ended before. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Has it ever been ready? */
  get begun(): boolean {
    return this.#begun;
  }

  /** Tasks that it works on. */
  get load(): number {
    return this.#pending.size;
  }

  run(task: Task): Promise<TaskResult> {
    if (this.#end !== undefined) return Promise.reject(new WorkerGone(this.#end));
    const message: ToWorker = { kind: 'task', id: this.#next++, task: unwrapSecrets(task) };
    const { promise, resolve, reject } = Promise.withResolvers<TaskResult>();
    this.#pending.set(message.id, { resolve, reject });
    this.#tell(message);
    return promise;
  }

  async close(): Promise<void> {
    if (this.#child.connected) this.#child.disconnect();
    const impatience = setTimeout(() => this.#child.kill('SIGKILL'), LAST_DEADLINE);
    await this.#gone.promise;
    clearTimeout(impatience);
  }

  /** A message that does not arrive is one to a worker that has ended, and that is noticed for all of them at once. */
  #tell(message: ToWorker): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  #hear(message: FromWorker): void {
    if (message.kind === 'ready') {
      this.#begun = true;
      this.#ready.resolve();
      return;
    }
    const pending = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.kind === 'done') pending?.resolve(message.result);
    else pending?.reject(new StagingError(message.code, message.message));
  }

  #over(end: string): void {
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
  // Most of a worker's start is compiling the S3 client; the launcher has said where compiled code is kept.
  const cache = getCompileCacheDir();
  return {
    ...Object.fromEntries(kept),
    ...(cache !== undefined && { NODE_COMPILE_CACHE: dirname(cache) }),
    // What an administrator keeps for the AWS command line must not change where files of users go.
    AWS_CONFIG_FILE: devNull,
    AWS_SHARED_CREDENTIALS_FILE: devNull,
  };
}
