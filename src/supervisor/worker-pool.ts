import { Slots } from '../base/slots.ts';
import type { Network } from '../outbound/index.ts';
import type { Task, TaskResult } from './channel.ts';
import { SupervisorError } from './errors.ts';
import type { Staging, UploadPlan } from './staging.ts';
import { WorkerGone, WorkerProcess } from './worker-process.ts';

export interface StagingOptions {
  /** How many processes. */
  readonly workers: number;
  /** The operator's networks, where users may have stores that are not public. */
  readonly networks: readonly Network[];
}

export interface StagingWorkers extends Staging {
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

const stopping = () =>
  new SupervisorError('staging-unavailable', 'no files are moved any more: the manager is stopping');

function lost(cause: unknown): SupervisorError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const message = `the process that moves files ended (${why}): look into the manager's log for its last words`;
  return new SupervisorError('staging-unavailable', message, { cause });
}
