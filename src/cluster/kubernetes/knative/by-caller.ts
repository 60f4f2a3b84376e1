import type { Readable } from 'node:stream';
import type { Attempt } from '../../attempt.ts';
import type { LogOptions, Observation, Runner, Standby, StopReason, Usage } from '../../runner.ts';
import type { KubernetesRunner } from '../runner/index.ts';
import type { KnativeRunner } from './knative-runner.ts';

/** There is always a place for a call: Knative makes one when it is needed, and no room is asked for a second time. */
const ALWAYS: Standby = {
  keep: () => undefined,
  take: () => true,
  giveBack: () => undefined,
  onReady: () => () => undefined,
};

/** Attempts whose caller waits for the answer go to Knative, all others to pods of their own. */
export class ByCaller implements Runner {
  readonly standby = ALWAYS;
  readonly #pods: KubernetesRunner;
  readonly #calls: KnativeRunner;

  constructor(pods: KubernetesRunner, calls: KnativeRunner) {
    this.#pods = pods;
    this.#calls = calls;
  }

  async start(attempt: Attempt): Promise<void> {
    // One that a manager without Knative has begun is gone on with.
    const isCall = attempt.answer && attempt.traits && !(await this.#pods.has(attempt.name));
    await (isCall ? this.#calls : this.#pods).start(attempt);
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    yield* this.#here(name).observe(name);
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    await this.#here(name).stop(name, reason);
  }

  async *logs(name: string, options: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    yield* (await this.#of(name)).logs(name, options);
  }

  async answer(name: string): Promise<Readable> {
    return (await this.#of(name)).answer(name);
  }

  async list(): Promise<string[]> {
    return (await Promise.all([this.#pods.list(), this.#calls.list()])).flat();
  }

  async forget(name: string): Promise<void> {
    await this.#here(name).forget(name);
  }

  usage(): Usage {
    return this.#pods.usage();
  }

  standDown(): void {
    this.#pods.standDown();
    this.#calls.standDown();
  }

  /** The pods have their own end. */
  async close(): Promise<void> {
    await this.#calls.close();
  }

  /** Of one that this manager has started, or has heard of. */
  #here(name: string): Runner {
    return this.#calls.has(name) ? this.#calls : this.#pods;
  }

  /** Of one that another manager may have begun just now. */
  async #of(name: string): Promise<Runner> {
    if (this.#calls.has(name)) return this.#calls;
    return !(await this.#pods.has(name)) && (await this.#calls.finds(name)) ? this.#calls : this.#pods;
  }
}
