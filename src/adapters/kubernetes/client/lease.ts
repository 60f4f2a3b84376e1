import { setTimeout as pause } from 'node:timers/promises';
import type { Api } from './api.ts';
import { type KubeObject, LEASE, type Stored } from './kinds.ts';
import { createObject, isSuperseded, replaceObject } from './writes.ts';

export interface LeaseOptions {
  readonly namespace: string;
  readonly name: string;
  /** Of this process; no other may have the same. */
  readonly identity: string;
  /**
   * How long a lease counts that is not renewed. Shorter: a slow API server makes the leader change. Longer: after a
   * crash nobody leads for that long.
   */
  readonly durationMs: number;
  /** How often it is renewed, and looked at by the others. */
  readonly renewMs: number;
  /**
   * Does the work of a leader until the signal aborts; the next leader is made only when it has returned, or its lease
   * ran out. Other work in the same process goes on.
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
 * One of several managers leads: it does what would be wasted work if all did it. It saves work and is never what
 * correctness rests on (docs/concepts.md#two-rules): a leader that is stopped for a minute still believes in itself
 * when it wakes up, so whatever it does is a compare-and-swap.
 *
 * Whether somebody else's lease has run out is measured by how long it was seen unchanged, with a clock that only goes
 * forward, and not by the time that is written in it: clocks of machines differ.
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

  /** Stops the work, waits for it, and gives the lease up, so that another can take it at once. */
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

  /** Renews until it is lost. Not renewed in time counts as lost, before anybody else can think so. */
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

  /** `there`: what it replaces. `held`: the same, if it is ours already. */
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
