import { type ChildProcess, fork } from 'node:child_process';
import { getCompileCacheDir } from 'node:module';
import { devNull } from 'node:os';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Network } from '../outbound/index.ts';
import { bare, type FromWorker, type Task, type TaskResult, type ToWorker } from './channel.ts';
import { SupervisorError } from './errors.ts';

const PROGRAM = fileURLToPath(new URL('./worker.ts', import.meta.url));

/** What a worker needs to know of the world. Proxies are not among it: behind one, checking an address means nothing. */
const KEPT = ['PATH', 'HOME', 'TZ', 'NODE_EXTRA_CA_CERTS'];

/** After this a worker that was let go of is made to go. Longer than any system call that is not stuck. */
const LAST_DEADLINE = 5_000;

/** The worker ended before it had done the task, and it may have done part of it. */
export class WorkerGone extends Error {}

interface Pending {
  readonly resolve: (result: TaskResult) => void;
  readonly reject: (error: Error) => void;
}

/** One worker, seen from the manager. Keys reach it over the channel alone. */
export class WorkerProcess {
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
    const message: ToWorker = { kind: 'task', id: this.#next++, task: bare(task) };
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
    else pending?.reject(new SupervisorError(message.code, message.message));
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
