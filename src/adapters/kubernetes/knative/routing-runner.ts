import type { Readable } from 'node:stream';
import type { Attempt } from '../../../model/job/index.ts';
import {
  type LogOptions,
  type Observation,
  type Runner,
  type Standby,
  type StopReason,
  StoreError,
  type Usage,
} from '../../../ports/index.ts';
import type { KubernetesRunner } from '../runner/index.ts';
import type { KnativeRunner } from './knative-runner.ts';

/**
 * How long calls may go on when this manager does not lead any more. Longer: fewer of them are lost by an upgrade. Shorter: jobs
 * wait less for the next leader, and who stops is done before Kubernetes kills it, 30 s after its order to stop.
 */
const FINISH_MS = 8_000;

/** There is always a place for a call: Knative makes one when it is needed, and no room is asked for a second time. */
const ALWAYS: Standby = {
  setRequests: () => undefined,
  claim: () => true,
  release: () => undefined,
  onReady: () => () => undefined,
};

/**
 * Attempts whose caller waits for the answer go to Knative, if that is there, all others to pods of their own. What a manager
 * with the other setting has begun stays what it is: the records of both have the same names, so that who comes second sees
 * it, and no script runs twice.
 */
export class RoutingRunner implements Runner {
  readonly standby: Standby;
  readonly #pods: KubernetesRunner;
  readonly #calls: KnativeRunner;
  readonly #hasKnative: boolean;

  constructor(pods: KubernetesRunner, calls: KnativeRunner, hasKnative: boolean) {
    this.#pods = pods;
    this.#calls = calls;
    this.#hasKnative = hasKnative;
    this.standby = hasKnative ? ALWAYS : pods.standby;
  }

  async start(attempt: Attempt): Promise<void> {
    const isCall = this.#hasKnative && attempt.answer && attempt.traits;
    try {
      await (isCall ? this.#calls : this.#pods).start(attempt);
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'conflict') throw error;
      if (isCall) await this.#pods.start(attempt);
      else if (!(await this.#calls.endAbandoned(attempt.name))) throw error;
    }
  }

  async *observe(name: string): AsyncGenerator<Observation, undefined> {
    yield* this.#knownRunner(name).observe(name);
  }

  async stop(name: string, reason: StopReason): Promise<void> {
    await this.#knownRunner(name).stop(name, reason);
  }

  async *logs(name: string, options: LogOptions): AsyncGenerator<Uint8Array, undefined> {
    yield* (await this.#findRunner(name)).logs(name, options);
  }

  async answer(name: string): Promise<Readable> {
    return (await this.#findRunner(name)).answer(name);
  }

  async list(): Promise<string[]> {
    return (await Promise.all([this.#pods.list(), this.#calls.list()])).flat();
  }

  async forget(name: string): Promise<void> {
    await this.#knownRunner(name).forget(name);
  }

  usage(): Usage {
    return this.#pods.usage();
  }

  async standDown(): Promise<void> {
    this.#pods.standDown();
    await this.#calls.standDown(FINISH_MS);
  }

  /** The pods have their own end. */
  async close(): Promise<void> {
    await this.#calls.close();
  }

  /** Of one that this manager has started, or has heard of. */
  #knownRunner(name: string): Runner {
    return this.#calls.has(name) ? this.#calls : this.#pods;
  }

  /** Of one that another manager may have begun just now. */
  async #findRunner(name: string): Promise<Runner> {
    if (this.#calls.has(name)) return this.#calls;
    return !(await this.#pods.has(name)) && (await this.#calls.exists(name)) ? this.#calls : this.#pods;
  }
}
