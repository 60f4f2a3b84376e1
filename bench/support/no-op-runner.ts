import { Readable } from 'node:stream';
import type { Attempt } from '../../src/model/job/index.ts';
import { type Observation, type Runner, StoreError } from '../../src/ports/index.ts';
import type { Staging } from '../../src/staging/index.ts';

/** A service with this in its script has jobs that go on until they are stopped. */
export const STAYS = 'stays';

/**
 * Runs nothing: an attempt has begun at once, and ended at once without any output, which it hands in as others do. So a
 * manager costs what it costs beside its scripts.
 */
export function createLocalRunner({ staging }: { readonly staging: Pick<Staging, 'upload'> }): Runner {
  return new NoOpRunner(staging);
}

class NoOpRunner implements Runner {
  readonly #staging: Pick<Staging, 'upload'>;
  readonly #attempts = new Map<string, { readonly attempt: Attempt; readonly stopped: PromiseWithResolvers<void> }>();

  constructor(staging: Pick<Staging, 'upload'>) {
    this.#staging = staging;
  }

  async start(attempt: Attempt): Promise<void> {
    if (!this.#attempts.has(attempt.name)) {
      this.#attempts.set(attempt.name, { attempt, stopped: Promise.withResolvers() });
    }
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    const known = this.#attempts.get(name);
    if (!known) throw new StoreError('absent', `there is no attempt ${name}`);
    const startedAt = Date.now();
    yield { phase: 'running', startedAt };
    if (known.attempt.script.includes(STAYS)) {
      await known.stopped.promise;
      const message = 'it was stopped';
      yield { phase: 'ended', outcome: 'stopped', reason: 'Stopped', message, startedAt, finishedAt: Date.now() };
      return;
    }
    const manifest = await this.#handIn(known.attempt);
    yield {
      phase: 'ended',
      outcome: 'succeeded',
      reason: 'Completed',
      message: 'it did nothing',
      startedAt,
      finishedAt: Date.now(),
      exitCode: 0,
      ...(manifest !== undefined && { manifest }),
    };
  }

  /** The list of no outputs, with the keys of the job. */
  async #handIn(attempt: Attempt): Promise<string | undefined> {
    const { name, manifest } = attempt;
    if (!manifest) return undefined;
    const stores = await attempt.stores();
    return this.#staging.upload({ directory: '/', files: [], stores, attempt: name, resumed: false, manifest });
  }

  async stop(name: string): Promise<void> {
    this.#attempts.get(name)?.stopped.resolve();
  }

  async *logs(): AsyncGenerator<Uint8Array, undefined> {}

  async answer(): Promise<Readable> {
    return Readable.from([]);
  }

  async list(): Promise<string[]> {
    return [...this.#attempts.keys()];
  }

  async forget(name: string): Promise<void> {
    this.#attempts.delete(name);
  }

  usage() {
    return { cpu: 0, memory: 0 };
  }

  async close(): Promise<void> {}
}

export * from '../../src/adapters/local-runner/index.ts';
