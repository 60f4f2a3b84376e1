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
 * How long calls may continue after this manager stops leading. A longer time loses fewer calls in an upgrade; with a shorter
 * one jobs wait less for the next leader, and the manager ends before Kubernetes kills it, 30 s after its SIGTERM.
 */
const FINISH_MS = 8_000;

/** Knative starts pods for calls on demand, so every call counts as having a warm pod and needs no capacity. */
const ALWAYS: Standby = {
  setRequests: () => undefined,
  claim: () => true,
  release: () => undefined,
  onReady: () => () => undefined,
};

/**
 * Sends attempts whose caller waits for the answer to Knative, if it is enabled, and all others to pods of their own. An
 * attempt that a manager with the other setting has begun stays where it is: both kinds of records have the same names, so
 * the second manager finds the record, and no script runs twice.
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

  /** The runner of pods is closed separately. */
  async close(): Promise<void> {
    await this.#calls.close();
  }

  /** The runner of an attempt that this manager has started or has in its cache. */
  #knownRunner(name: string): Runner {
    return this.#calls.has(name) ? this.#calls : this.#pods;
  }

  /** The same for an attempt that another manager may have just begun. */
  async #findRunner(name: string): Promise<Runner> {
    if (this.#calls.has(name)) return this.#calls;
    return !(await this.#pods.has(name)) && (await this.#calls.exists(name)) ? this.#calls : this.#pods;
  }
}
