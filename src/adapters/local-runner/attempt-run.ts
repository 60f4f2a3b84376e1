/** One attempt on this machine: fetch the input, launch the script, wait for its end, upload the output, store the end. */
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type DiskSpace, isDiskFull } from '../../lib/disk-space.ts';
import { backoffDelay } from '../../lib/retry.ts';
import { Secret } from '../../lib/secret.ts';
import type { Attempt, Demand, Ended, EndReason } from '../../model/job/index.ts';
import type { Observation, StopReason } from '../../ports/index.ts';
import { FULL_STORE_PATIENCE, type Staging, StagingError, storePatience } from '../../staging/index.ts';
import type { AttemptFiles } from './attempt-files.ts';
import { measureDiskUse } from './disk-use.ts';
import { LaunchError, type Launcher, type LaunchOrder, type Run, type RunEnd } from './launcher.ts';
import type { AttemptLog } from './log-file.ts';

export interface AttemptRunDeps {
  readonly staging: Staging;
  readonly launcher: Launcher;
  /** Milliseconds between TERM and KILL. */
  readonly grace: number;
  /** The free space of the disk that scripts write to. */
  readonly disk?: Pick<DiskSpace, 'check' | 'low' | 'shortage'> | undefined;
}

/** More notes of the staging than this are not written to the log of an attempt. */
const NOTES = 100;

/** Milliseconds between two attempts to upload; each pause is twice the previous one. */
const RETRY = { first: 500, longest: 30_000 };

/** What an engine keeps of a container is not measured, so a script may seem innocent of a full disk forever. */
const MAX_HOLDS = 5;

/** Thrown when the manager closes. The next manager continues from here. */
class Detached extends Error {}

/**
 * Runs an attempt to its end. It can resume at any step: it finds what an earlier manager has done and continues there, and
 * the script is started only once.
 */
export class AttemptRun {
  readonly log: AttemptLog;
  readonly #attempt: Attempt;
  readonly #files: AttemptFiles;
  readonly #deps: AttemptRunDeps;
  readonly #stop = Promise.withResolvers<StopReason>();
  #stopReason: StopReason | undefined;
  readonly #detached = Promise.withResolvers<never>();
  #observation: Observation = { phase: 'preparing', message: 'starting' };
  #changed = Promise.withResolvers<void>();
  #over = false;
  /** How often the script has failed for lack of space, to run again when there is some. */
  #heldForSpace = 0;
  readonly #cleanedUp = Promise.withResolvers<void>();

  constructor(attempt: Attempt, files: AttemptFiles, log: AttemptLog, deps: AttemptRunDeps) {
    this.#attempt = attempt;
    this.#files = files;
    this.log = log;
    this.#deps = deps;
    this.#detached.promise.catch(() => undefined);
  }

  get hasEnded(): boolean {
    return this.#observation.phase === 'ended';
  }

  /** Resolves to true when the end is stored and the files are cleaned up, to false when it was detached. Never rejects. */
  async run(): Promise<boolean> {
    try {
      const ended = await this.#resumeOrStart().catch((error: unknown) => this.#toUnexpectedEnd(error));
      return await this.#conclude(ended);
    } catch (error) {
      if (error instanceof Detached) return false;
      throw error;
    } finally {
      this.log.close();
      this.#over = true;
      this.#changed.resolve();
      this.#cleanedUp.resolve();
    }
  }

  /** Resolves when everything is done. Observers see the end before that. */
  get cleanedUp(): Promise<void> {
    return this.#cleanedUp.promise;
  }

  /** Finishes after `ended`, or when the attempt is detached. */
  async *observations(): AsyncGenerator<Observation, undefined> {
    for (;;) {
      const changed = this.#changed.promise;
      const over = this.#over;
      const observation = this.#observation;
      yield observation;
      if (observation.phase === 'ended' || over) return;
      await changed;
    }
  }

  /** Resolves when the attempt has ended. An upload that has begun is not stopped, and its outcome is that of the attempt. */
  async stop(reason: StopReason): Promise<void> {
    this.#stopReason ??= reason;
    this.#stop.resolve(reason);
    for await (const observation of this.observations()) if (observation.phase === 'ended') return;
  }

  detach(): void {
    this.#detached.reject(new Detached());
  }

  async #resumeOrStart(): Promise<Ended> {
    for (;;) {
      const found = await this.#unlessDetached(this.#deps.launcher.find(this.#toLaunchOrder()));
      const begun = found ?? (await this.#launchWhenSpace());
      if ('phase' in begun) return begun;
      this.#setObservation({ phase: 'running', startedAt: begun.startedAt });
      const end = await this.#waitForEnd(begun, { stoppable: !this.#wasDelivering(found) });
      if (!('phase' in end)) return this.#deliver(begun, end, found !== undefined);
      if (end.reason !== 'ScriptFailed' || !(await this.#discardForSpace(end))) return end;
    }
  }

  /**
   * A script that fails while the disk is full of other files has not failed by itself: it runs again when there is space.
   * If the space of its own files would end the shortage, it has filled the disk itself, and would do so again.
   */
  async #discardForSpace({ message }: Ended): Promise<boolean> {
    const { disk, launcher } = this.#deps;
    const { input, output, state } = this.#files.directory;
    await disk?.check();
    const low = disk?.low;
    if (!low || this.#heldForSpace === MAX_HOLDS) return false;
    if (low.free + (await measureDiskUse([input, output, state], low.floor)) >= low.floor) return false;
    this.log.notice(`${message}, and the disk is full: it runs again when there is space`, Date.now());
    await this.#unlessDetached(launcher.remove(this.#attempt.name));
    await this.#files.forgetLaunch();
    this.#heldForSpace++;
    return true;
  }

  /** True if an earlier manager died during the upload. Results may be visible already, so it is too late to stop. */
  #wasDelivering(found: Run | undefined): boolean {
    const { outputs, manifest } = this.#attempt;
    return found !== undefined && (outputs.length > 0 || manifest !== undefined) && this.#files.hasBegunDelivery();
  }

  /** The script has not run, so an attempt that finds the disk full waits and begins again. */
  async #launchWhenSpace(): Promise<Run | Ended> {
    for (let tries = 1; ; tries++) {
      try {
        const shortage = this.#heldForSpace > 0 ? this.#deps.disk?.shortage : undefined;
        if (shortage !== undefined) throw new NoSpaceYet(shortage);
        // Progress of a retry would hide the reason for which it waits.
        return await this.#prepareAndLaunch(tries === 1 ? undefined : () => undefined);
      } catch (error) {
        if (!isForSpace(error)) throw error;
        // The part of the input that has arrived would keep the disk full.
        await this.#files.clear().catch(() => undefined);
        this.#setObservation({ phase: 'preparing', message: `waits for disk space: ${toMessage(error)}` });
        await this.#pause(backoffDelay(tries, RETRY));
        if (this.#stopReason) return this.#toEnded('stopped', 'Stopped', `it was stopped: ${this.#stopReason}`);
      }
    }
  }

  async #prepareAndLaunch(
    report = (message: string) => this.#setObservation({ phase: 'preparing', message }),
  ): Promise<Run | Ended> {
    const { launcher } = this.#deps;
    const order = this.#toLaunchOrder();
    const abort = new AbortController();
    try {
      await this.#unlessDetached(this.#files.clear());
      const ready = Promise.all([launcher.prepare(order, report, abort.signal), this.#stageIn(report)]);
      await this.#unlessDetached(Promise.race([ready, this.#stop.promise]));
      if (this.#stopReason) {
        const message = `the attempt was stopped before its script started: ${this.#stopReason}`;
        return this.#toEnded('stopped', 'Stopped', message);
      }
      return await this.#unlessDetached(launcher.launch(order));
    } catch (error) {
      if (isForSpace(error)) throw error;
      if (error instanceof LaunchError) return this.#toEnded('failed', error.reason, error.message);
      if (error instanceof StageInError) return this.#toEnded('failed', 'InputFailed', error.message);
      throw error;
    } finally {
      abort.abort();
    }
  }

  async #stageIn(report: (message: string) => void): Promise<void> {
    const { input } = this.#attempt;
    if (input.kind === 'none') return;
    try {
      const to = this.#inputFile(input.name);
      if (input.kind === 'bytes') return await writeFile(to, input.bytes, { mode: 0o600 });
      report(`fetching ${input.from.bucket}/${input.from.key}`);
      const access = (await this.#attempt.stores()).get(input.from.store);
      if (!access) throw new Error(`there are no keys for the store ${input.from.store}`);
      await this.#deps.staging.fetch({ from: input.from, access, to });
    } catch (error) {
      throw new StageInError(`the input could not be fetched: ${toMessage(error)}`, { cause: error });
    }
  }

  #inputFile(name: string): string {
    if (name === '' || name === '.' || name === '..' || name !== basename(name) || name.includes('\0'))
      throw new Error(`${JSON.stringify(name)} is no name of a file`);
    return join(this.#files.directory.input, name);
  }

  /** Waits for the script to end, and ends it at its timeout or when the attempt is stopped. */
  async #waitForEnd(run: Run, { stoppable }: { stoppable: boolean }): Promise<RunEnd | Ended> {
    const { timeout } = this.#attempt;
    const over = new AbortController();
    try {
      const first = await this.#unlessDetached(
        Promise.race([
          run.ended,
          ...(stoppable ? [this.#stop.promise] : []),
          afterUnlessAborted(run.startedAt + timeout - Date.now(), over.signal).then(() => 'timeout' as const),
        ]),
      );
      if (typeof first === 'object' && !(stoppable && this.#stopReason)) {
        const failure = toFailure(first, this.#attempt.demand);
        if (!failure) return first;
        const { reason, message, ...code } = failure;
        return this.#toEnded('failed', reason, message, run, { finishedAt: first.at, ...code });
      }
      const end = await this.#unlessDetached(this.#terminate(run));
      const code = end.exitCode === undefined ? {} : { exitCode: end.exitCode };
      if (first === 'timeout')
        return this.#toEnded('failed', 'Timeout', `the script did not end within ${timeout / 1000} s`, run, code);
      return this.#toEnded('stopped', 'Stopped', `it was stopped: ${this.#stopReason}`, run, code);
    } finally {
      over.abort();
    }
  }

  async #terminate(run: Run): Promise<RunEnd> {
    const over = new AbortController();
    await run.signal('TERM');
    await Promise.race([run.ended, afterUnlessAborted(this.#deps.grace, over.signal)]);
    over.abort();
    await run.signal('KILL');
    return run.ended;
  }

  /** Uploads the output of the script, and stores the answer to a synchronous caller. */
  async #deliver(run: Run, end: RunEnd, resumed: boolean): Promise<Ended> {
    this.#setObservation({ phase: 'uploading', startedAt: run.startedAt });
    const { outputs, answer, manifest } = this.#attempt;
    const { output } = this.#files.directory;
    let more: Partial<Pick<Ended, 'exitCode' | 'manifest'>> = { exitCode: 0 };
    // An empty output does not wait for a staging worker.
    const left = !this.#files.isOutputEmpty();
    try {
      const digest =
        (left && outputs.length > 0) || manifest ? await this.#uploadWithRetries(left, resumed) : undefined;
      if (digest !== undefined) more = { ...more, manifest: digest };
      if (left && answer) await this.#unlessDetached(this.#deps.staging.pack(output, this.#files.answer));
    } catch (error) {
      if (error instanceof Detached) throw error;
      return this.#toEnded('failed', 'OutputFailed', `the output was not delivered: ${toMessage(error)}`, run, more);
    }
    const finishedAt = outputs.length > 0 ? Date.now() : end.at;
    return this.#toEnded('succeeded', 'Completed', 'the script ended with exit code 0', run, { ...more, finishedAt });
  }

  /** Retries until the patience of the attempt is over, or it is stopped. */
  async #uploadWithRetries(left: boolean, resumed: boolean): Promise<string | undefined> {
    const began = Date.now();
    for (let tries = 1; ; tries++) {
      const before = tries > 1;
      try {
        return await this.#upload(left, resumed || before);
      } catch (error) {
        const wait = backoffDelay(tries, RETRY);
        const patience = isForSpace(error)
          ? FULL_STORE_PATIENCE
          : storePatience(error) || (this.#attempt.patience ?? 0);
        if (error instanceof Detached || this.#stopReason || Date.now() + wait > began + patience) throw error;
        if (!before) this.log.notice(`the output is not delivered yet: ${toMessage(error)}`, Date.now());
        await this.#pause(wait);
      }
    }
  }

  async #pause(ms: number): Promise<void> {
    const over = new AbortController();
    try {
      await this.#unlessDetached(Promise.race([afterUnlessAborted(ms, over.signal), this.#stop.promise]));
    } finally {
      over.abort();
    }
  }

  /** Resolves to the SHA-256 of the manifest, if the attempt writes one. */
  async #upload(left: boolean, resumed: boolean): Promise<string | undefined> {
    const { staging } = this.#deps;
    const { name, outputs, inputLabel, manifest } = this.#attempt;
    const directory = this.#files.directory.output;
    const nothing = { files: [], notes: [] };
    const { files, notes } = left ? await this.#unlessDetached(staging.plan(directory, outputs)) : nothing;
    for (const note of notes.slice(0, NOTES)) this.log.notice(note, Date.now());
    if (notes.length > NOTES) this.log.notice(`and ${notes.length - NOTES} more notes like these`, Date.now());
    if (files.length === 0 && !manifest) return undefined;
    const stores = await this.#unlessDetached(this.#attempt.stores(resumed ? files.map(({ to }) => to) : undefined));
    const label = inputLabel === undefined ? {} : { inputLabel };
    const order = { directory, files, stores, attempt: name, resumed, ...label, ...(manifest && { manifest }) };
    this.#files.beginDelivery();
    return this.#unlessDetached(staging.upload(order));
  }

  /** Stores the end first: a manager that finds an end knows that only the clean-up is left. */
  async #conclude(ended: Ended): Promise<boolean> {
    if (ended.outcome !== 'succeeded') this.log.notice(ended.message, Date.now());
    const written = await this.#writeEnd(ended);
    this.#setObservation(ended);
    if (!written) return false;
    try {
      await this.#deps.launcher.remove(this.#attempt.name);
      await this.#files.cleanUp();
    } catch (error) {
      this.log.notice(`some files of the attempt could not be removed: ${toMessage(error)}`, Date.now());
    }
    return true;
  }

  async #writeEnd(ended: Ended): Promise<boolean> {
    try {
      this.#files.writeEnd(ended);
      return true;
    } catch {
      // The disk may be full of the output of this attempt: remove it and try again.
    }
    try {
      await this.#files.clear();
      this.#files.writeEnd(ended);
      return true;
    } catch {
      return false;
    }
  }

  #toUnexpectedEnd(error: unknown): Ended {
    if (error instanceof Detached) throw error;
    const { phase } = this.#observation;
    return this.#toEnded('failed', phase === 'preparing' ? 'StartFailed' : 'Lost', toMessage(error));
  }

  #toEnded(
    outcome: Ended['outcome'],
    reason: EndReason,
    message: string,
    run?: Run,
    more: Partial<Pick<Ended, 'exitCode' | 'finishedAt' | 'manifest'>> = {},
  ): Ended {
    const startedAt = run && { startedAt: run.startedAt };
    // Docker records the start of a container a moment late: a container that ends at once may seem to end before it started.
    const finishedAt = Math.max(more.finishedAt ?? Date.now(), startedAt?.startedAt ?? 0);
    return { phase: 'ended', outcome, reason, message, ...startedAt, ...more, finishedAt };
  }

  #toLaunchOrder(): LaunchOrder {
    const { name, image, demand, environment, input } = this.#attempt;
    const { directory } = this.#files;
    const view = this.#deps.launcher.view(directory);
    const values = Object.entries(environment).map(([key, value]) => [
      key,
      value instanceof Secret ? value.reveal() : value,
    ]);
    const paths = {
      TMP_INPUT_DIR: view.input,
      TMP_OUTPUT_DIR: view.output,
      ...(input.kind !== 'none' && { INPUT_FILE_PATH: `${view.input}/${input.name}` }),
    };
    const print = (bytes: Uint8Array, at: number) => this.log.print(bytes, at);
    return { name, image, directory, environment: { ...Object.fromEntries(values), ...paths }, demand, print };
  }

  #setObservation(observation: Observation): void {
    if (this.#observation.phase === 'ended') return;
    this.#observation = observation;
    const changed = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    changed.resolve();
  }

  #unlessDetached<T>(promise: Promise<T>): Promise<T> {
    return Promise.race([promise, this.#detached.promise]);
  }
}

class StageInError extends Error {}

/** A script has failed for lack of space, which still lacks. */
class NoSpaceYet extends Error {}

/** There is no space on the disk of this machine, or in a store. */
function isForSpace(error: unknown): boolean {
  if (error instanceof NoSpaceYet) return true;
  if (error instanceof StagingError) return error.code === 'disk-full' || error.code === 'store-full';
  return isDiskFull(error) || (error instanceof Error && error.cause !== undefined && isForSpace(error.cause));
}

const toMessage = (error: unknown) => (error instanceof Error ? error.message : String(error));

type Failure = Pick<Ended, 'message' | 'exitCode'> & { readonly reason: EndReason };

/** Why a script that was not stopped by this manager has failed; undefined if it succeeded. */
export function toFailure({ cause, exitCode, signal }: RunEnd, demand: Demand): Failure | undefined {
  const by = signal ? ` (${signal})` : '';
  switch (cause) {
    case 'out-of-memory':
      return { reason: 'OutOfMemory', message: `the script used more memory than its ${inMebibytes(demand.memory)}` };
    case 'disk-full':
      return { reason: 'DiskFull', message: 'the script exceeded its limit of disk space' };
    case 'signal':
      return {
        reason: 'Lost',
        message: `something other than the manager ended the script${by}, and there is no exit code`,
      };
    case 'lost':
      return { reason: 'Lost', message: 'the script was started and is no longer running, and there is no exit code' };
    case 'unkillable':
      return { reason: 'Lost', message: 'processes of the script cannot be ended: its output is not delivered' };
    case undefined:
  }
  if (exitCode === undefined) return { reason: 'Lost', message: 'the script ended without an exit code' };
  if (exitCode === 0) return undefined;
  const message = `the script ended with exit code ${exitCode}${by || describeSignal(exitCode)}`;
  return { reason: 'ScriptFailed', message, exitCode };
}

const inMebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;

/** A shell reports a signal as 128 plus its number. */
function describeSignal(exitCode: number): string {
  const name = Object.entries(constants.signals).find(([, number]) => number === exitCode - 128)?.[0];
  return name ? ` (${name})` : '';
}

/** The longest delay that a timer accepts. */
const LONGEST = 2 ** 31 - 1;

/** Resolves after that many milliseconds, which may be longer than a timer accepts; never, once the signal is aborted. */
async function afterUnlessAborted(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    for (let left = milliseconds; left > 0; left -= LONGEST) {
      await pause(Math.min(left, LONGEST), undefined, { signal });
    }
  } catch {
    await new Promise<never>(() => undefined);
  }
}
