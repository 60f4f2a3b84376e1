import { createReadStream, existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { isDiskFull } from '../../lib/disk-space.ts';
import type { Attempt } from '../../model/job/index.ts';
import {
  type LogOptions,
  type Observation,
  type Runner,
  type StopReason,
  StoreError,
  type Usage,
} from '../../ports/index.ts';
import { AttemptFiles, listNames, removeTree } from './attempt-files.ts';
import { AttemptRun, type AttemptRunDeps } from './attempt-run.ts';
import { AttemptLog, readAttemptLog } from './log-file.ts';

/** Output above this is dropped. A larger value allows larger answers, and takes more disk for each job that is kept. */
const MAX_LOG_BYTES = 10 * 2 ** 20;

/** Between TERM and KILL: long enough for a script to save its state, short enough for jobs that wait for capacity. */
const GRACE_MS = 10_000;

export interface LocalRunnerOptions extends Omit<AttemptRunDeps, 'grace'> {
  /** Survives the manager. */
  readonly directory: string;
  readonly maxLogBytes?: number;
  readonly grace?: number;
}

/** Runs attempts on this machine. `close` also closes the launcher, but not the staging. */
export function createLocalRunner(options: LocalRunnerOptions): Runner {
  return new LocalRunner(options);
}

const NAME = /^[a-z0-9-]{1,63}$/;

class LocalRunner implements Runner {
  readonly #deps: AttemptRunDeps;
  readonly #attempts: string;
  readonly #removed: string;
  readonly #maxLogBytes: number;
  /** Attempts that have not ended, or are not cleaned up yet. */
  readonly #runs = new Map<string, AttemptRun>();
  #waiting: (() => void)[] = [];
  #closed = false;

  constructor({
    directory,
    maxLogBytes = MAX_LOG_BYTES,
    grace = GRACE_MS,
    staging,
    launcher,
    disk,
  }: LocalRunnerOptions) {
    this.#deps = { staging, launcher, grace, disk };
    this.#attempts = join(directory, 'attempts');
    this.#removed = join(directory, 'removed');
    this.#maxLogBytes = maxLogBytes;
    // The user of a script may pass through to its own directory, but cannot list the others.
    for (const path of [this.#attempts, this.#removed]) mkdirSync(path, { recursive: true, mode: 0o711 });
    void this.#cleanUp();
  }

  /** Completes what an earlier manager was removing when it died. Runs in the background. */
  async #cleanUp(): Promise<void> {
    const each = async (names: readonly string[], remove: (name: string) => Promise<void>) => {
      // A failure is left to the next manager, and does not stop the others.
      for (const name of names) await remove(name).catch(() => undefined);
    };
    await each(listNames(this.#removed), (name) => removeTree(join(this.#removed, name)));
    await each(listNames(this.#attempts), async (name) => {
      const files = this.#files(name);
      if (!existsSync(files.directory.state) || !this.#hasEnded(files)) return;
      await this.#deps.launcher.remove(name);
      await files.cleanUp();
    });
  }

  async start(attempt: Attempt): Promise<void> {
    if (this.#closed)
      throw new StoreError('unavailable', `attempt ${attempt.name} was not started: the manager is stopping`);
    if (!NAME.test(attempt.name))
      throw new TypeError(`${JSON.stringify(attempt.name)} is not a valid name of an attempt`);
    const files = this.#files(attempt.name);
    if (this.#runs.has(attempt.name) || this.#hasEnded(files)) return;
    try {
      files.create(attempt);
      this.#startRun(attempt, files);
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      throw new StoreError('unavailable', 'waits for disk space', { cause: error });
    }
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    while (!this.#closed) {
      const run = this.#runs.get(name);
      if (run) return yield* run.observations();
      const ended = this.#existing(name).readEnd();
      yield ended ?? { phase: 'preparing', message: 'waiting to be resumed' };
      if (ended) return;
      await this.#nextChange();
    }
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    const files = this.#files(name);
    if (this.#closed || !NAME.test(name) || !files.exists() || this.#hasEnded(files)) return;
    const run = this.#runs.get(name) ?? this.#startRun(toAbandonedAttempt(name, files), files);
    await run.stop(reason);
  }

  async *logs(name: string, { timestamps, follow, signal }: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    const files = this.#existing(name);
    if (!existsSync(files.log)) return;
    const aborted = Promise.withResolvers<void>();
    const abort = () => aborted.resolve();
    signal?.addEventListener('abort', abort, { once: true });
    const more = async (size: number): Promise<boolean> => {
      if (!follow || signal?.aborted || this.#closed) return false;
      const run = this.#runs.get(name);
      const over = run ? run.log.closed : !files.exists() || this.#hasEnded(files);
      if ((statSync(files.log, { throwIfNoEntry: false })?.size ?? 0) > size) return true;
      if (over) return false;
      await Promise.race([run?.log.grown(size) ?? this.#nextChange(), aborted.promise]);
      return !signal?.aborted;
    };
    try {
      yield* readAttemptLog(files.log, timestamps ? 'timestamps' : 'plain', more);
    } finally {
      signal?.removeEventListener('abort', abort);
    }
  }

  async answer(name: string): Promise<Readable> {
    const files = this.#existing(name);
    const ended = this.#findUnfinished(name) ? undefined : files.readEnd();
    if (!ended) throw new StoreError('conflict', `attempt ${name} has no answer yet: it has not ended`);
    if (ended.outcome === 'succeeded' && existsSync(files.answer)) return createReadStream(files.answer);
    return Readable.from(existsSync(files.log) ? readAttemptLog(files.log, 'printed') : [], { objectMode: false });
  }

  async list(): Promise<string[]> {
    return listNames(this.#attempts);
  }

  async forget(name: string): Promise<void> {
    const files = this.#files(name);
    if (!NAME.test(name) || !files.exists()) return;
    if (this.#findUnfinished(name) || !this.#hasEnded(files))
      throw new StoreError('conflict', `attempt ${name} cannot be forgotten: it has not ended`);
    await this.#runs.get(name)?.cleanedUp;
    this.#runs.delete(name);
    await this.#deps.launcher.remove(name).catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      throw new StoreError('unavailable', `attempt ${name} cannot be forgotten: ${reason}`, { cause: error });
    });
    // Another call may have removed it meanwhile.
    if (!files.exists()) return;
    // Renamed first, so that a partly removed directory is never taken for an attempt that has not ended.
    const gone = join(this.#removed, `${name}.${process.pid}.${Date.now()}`);
    renameSync(files.directory.root, gone);
    await removeTree(gone);
  }

  usage(): Usage {
    return this.#deps.launcher.usage();
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const run of this.#runs.values()) run.detach();
    this.#notify();
    await this.#deps.launcher.close();
  }

  #startRun(attempt: Attempt, files: AttemptFiles): AttemptRun {
    const log = new AttemptLog(files.log, this.#maxLogBytes);
    if (this.#deps.launcher.kind === 'process' && log.size === 0) {
      const notice = `this cluster runs scripts as plain processes; the image ${JSON.stringify(attempt.image)} is not used`;
      log.notice(notice, Date.now());
    }
    const run = new AttemptRun(attempt, files, log, this.#deps);
    this.#runs.set(attempt.name, run);
    void this.#follow(attempt.name, run);
    this.#notify();
    return run;
  }

  async #follow(name: string, run: AttemptRun): Promise<void> {
    if (await run.run()) this.#runs.delete(name);
    this.#notify();
  }

  /** The run in memory, unless it has ended: the state of an ended attempt is read from its files alone. */
  #findUnfinished(name: string): AttemptRun | undefined {
    const run = this.#runs.get(name);
    return run?.hasEnded ? undefined : run;
  }

  #files(name: string): AttemptFiles {
    return new AttemptFiles(join(this.#attempts, name));
  }

  #existing(name: string): AttemptFiles {
    const files = this.#files(name);
    if (!NAME.test(name) || !files.exists())
      throw new StoreError('absent', `attempt ${name} not found on this machine`);
    return files;
  }

  #hasEnded(files: AttemptFiles): boolean {
    return files.readEnd() !== undefined;
  }

  /** Resolves when an attempt was resumed or has ended. */
  #nextChange(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }

  #notify(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }
}

/** An attempt of an earlier manager, with just enough to stop it. */
function toAbandonedAttempt(name: string, files: AttemptFiles): Attempt {
  const note = files.readNote();
  return {
    name,
    image: note?.image ?? '',
    demand: note?.demand ?? { cpu: 0, memory: 0, gpu: 0 },
    timeout: note?.timeout ?? 0,
    script: '',
    environment: {},
    input: { kind: 'none' },
    outputs: [],
    answer: false,
    stores: async () => new Map(),
  };
}
