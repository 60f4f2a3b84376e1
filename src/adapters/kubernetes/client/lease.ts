import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from './api.ts';
import { type KubeObject, LEASE, type Stored } from './kinds.ts';
import { createObject, isSuperseded, replaceObject } from './writes.ts';

export interface LeaseOptions {
  readonly namespace: string;
  readonly name: string;
  /** Unique identity of this process. */
  readonly identity: string;
  /**
   * How long a lease is valid without renewal. With a shorter time a slow API server causes a change of leader; a longer
   * one leaves the cluster without a leader for longer after a crash.
   */
  readonly durationMs: number;
  /** How often the leader renews the lease, and the others check it. */
  readonly renewMs: number;
  /**
   * Does the leader's work until the signal aborts. The lease is released when it has returned; until then, another
   * manager can lead only after the lease has expired.
   */
  readonly onLead: (signal: AbortSignal) => Promise<void>;
  readonly report: (problem: unknown) => void;
  readonly now?: () => number;
}

interface LeaseObject extends KubeObject {
  readonly spec?: {
    readonly holderIdentity?: string;
    readonly leaseDurationSeconds?: number;
    readonly acquireTime?: string;
    readonly renewTime?: string;
    readonly leaseTransitions?: number;
  };
}

/**
 * Leader election: one of several managers does what would be wasted work if all did it. Leadership saves work;
 * correctness never depends on it (docs/concepts.md#two-rules). A leader that was paused for a minute still believes that
 * it leads when it wakes up, so everything that it does is a compare-and-swap.
 *
 * Whether the lease of another manager has expired is measured with a monotonic clock, by how long the lease was seen
 * unchanged. The times in the lease are not used, because the clocks of machines differ.
 */
export class Lease {
  readonly #api: Api;
  readonly #options: LeaseOptions;
  readonly #stop = new AbortController();
  readonly #now: () => number;
  #running: Promise<void> | undefined;
  #held: Stored<LeaseObject> | undefined;
  #seen: { readonly version: string; readonly at: number } | undefined;

  constructor(api: Api, options: LeaseOptions) {
    this.#api = api;
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  get leading(): boolean {
    return this.#held !== undefined;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Stops the leader's work, waits for its end, and releases the lease, so that another manager can lead at once. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      if (await this.#guarded(() => this.#acquire())) await this.#lead();
      else await this.#rest();
    }
  }

  async #lead(): Promise<void> {
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ended.signal]);
    const work = this.#guarded(() => this.#options.onLead(signal)).finally(() => ended.abort());
    await this.#keep(signal);
    const held = this.#held;
    this.#held = undefined;
    ended.abort();
    await work;
    if (held) await this.#guarded(() => this.#release(held));
    await this.#rest();
  }

  /** Renews the lease until it is lost. It counts as lost here before any other manager can consider it expired. */
  async #keep(signal: AbortSignal): Promise<void> {
    const { durationMs, renewMs } = this.#options;
    let renewed = this.#now();
    while (!signal.aborted) {
      await pause(renewMs, undefined, { signal }).catch(() => {});
      if (signal.aborted) return;
      const asked = this.#now();
      const left = renewed + durationMs - renewMs - asked;
      const outcome = await Promise.race([
        this.#renew(),
        pause(left, 'late' as const, { signal }).catch(() => 'late' as const),
      ]);
      if (outcome === 'renewed') renewed = asked;
      else if (outcome !== 'failed' || this.#now() >= renewed + durationMs - renewMs) return;
    }
  }

  async #renew(): Promise<'renewed' | 'lost' | 'failed'> {
    const held = this.#held;
    if (!held) return 'lost';
    try {
      const written = await replaceObject(this.#api, LEASE, this.#object(held, held), held);
      if (written === 'conflict' || written === 'absent' || isSuperseded(written)) return 'lost';
      if (this.#held === held) this.#held = written;
      return 'renewed';
    } catch (error) {
      this.#options.report(error);
      return 'failed';
    }
  }

  async #acquire(): Promise<boolean> {
    const { namespace, name, identity, durationMs } = this.#options;
    const there = await this.#api.get<LeaseObject>(LEASE, { namespace, name });
    if (!there) {
      const made = await createObject(this.#api, LEASE, this.#object(undefined, undefined));
      if (made !== 'exists') this.#held = made;
      return this.leading;
    }
    const { resourceVersion } = there.metadata;
    if (this.#seen?.version !== resourceVersion) this.#seen = { version: resourceVersion, at: this.#now() };
    const holder = there.spec?.holderIdentity ?? '';
    const free = holder === '' || holder === identity || this.#now() - this.#seen.at >= durationMs;
    if (!free) return false;
    const taken = await replaceObject(this.#api, LEASE, this.#object(there, undefined), there);
    if (taken !== 'conflict' && taken !== 'absent' && !isSuperseded(taken)) this.#held = taken;
    return this.leading;
  }

  async #release(held: Stored<LeaseObject>): Promise<void> {
    const object = this.#object(held, held);
    await replaceObject(this.#api, LEASE, { ...object, spec: { ...object.spec, holderIdentity: '' } }, held);
  }

  /** `there`: the Lease to replace. `held`: the same object if this manager already holds it. */
  #object(there: Stored<LeaseObject> | undefined, held: Stored<LeaseObject> | undefined): LeaseObject {
    const { namespace, name, identity, durationMs } = this.#options;
    const now = new Date().toISOString().replace('Z', '000Z');
    const transitions = there?.spec?.leaseTransitions ?? 0;
    return {
      metadata: { namespace, name, ...(there && { resourceVersion: there.metadata.resourceVersion }) },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(durationMs / 1_000),
        acquireTime: held?.spec?.acquireTime ?? now,
        renewTime: now,
        leaseTransitions: held || !there ? transitions : transitions + 1,
      },
    };
  }

  async #guarded<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.#options.report(error);
      return undefined;
    }
  }

  async #rest(): Promise<void> {
    const { renewMs } = this.#options;
    const delay = renewMs * (0.75 + this.#api.options.random() / 2);
    await pause(delay, undefined, { signal: this.#stop.signal }).catch(() => {});
  }
}
