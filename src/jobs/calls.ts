import type { JobKey, Runner, ServiceStore } from '../cluster/index.ts';
import { roomName as nameOf } from './jobs.ts';
import type { Waiting } from './queue.ts';

/** Where calls go that may run. */
export interface CallsDeps {
  readonly services: Pick<ServiceStore, 'get'>;
  readonly runner: Pick<Runner, 'standby'>;
  /** It waits for room, like any job. */
  readonly wait: (call: Waiting) => void;
  readonly waits: (key: JobKey) => boolean;
  /** It has its place, and begins, whether it waited for room or not. */
  readonly begin: (call: Waiting) => void;
  readonly report: (problem: unknown, key: JobKey) => void;
}

interface Service {
  /** In the order in which they came. */
  readonly waiting: Map<string, Waiting>;
  /** Those that were let through: they run, or wait for room. */
  readonly through: Map<string, Waiting>;
}

/**
 * The calls of `/run`, whose callers wait for the answer. Of each service so many are let through at once as it says
 * (`synchronous.max_scale`), and the others wait here, so that they hold up nothing else of their owner. For one that is
 * let through a place may be ready (`synchronous.min_scale`): then it needs no room.
 */
export class Calls {
  readonly #deps: CallsDeps;
  readonly #services = new Map<string, Service>();
  readonly #end: (() => void) | undefined;

  constructor(deps: CallsDeps) {
    this.#deps = deps;
    this.#end = deps.runner.standby?.onReady((service) => this.#placed(service));
  }

  /** Again: nothing happens. */
  add(call: Waiting): void {
    const { waiting, through } = this.#of(call.key.service);
    const name = nameOf(call.key);
    if (through.has(name) || waiting.has(name)) return;
    waiting.set(name, call);
    this.#look(call.key);
  }

  /** It runs already, whatever its service says. */
  hold(call: Waiting): void {
    this.#of(call.key.service).through.set(nameOf(call.key), call);
  }

  /** It has ended, or does not want to run any more. Of one that is not known: nothing. */
  leave(key: JobKey): void {
    const service = this.#services.get(key.service);
    const name = nameOf(key);
    if (!service) return;
    service.waiting.delete(name);
    if (service.through.delete(name)) this.#deps.runner.standby?.giveBack(key);
    if (service.waiting.size > 0) this.#look(key);
    else if (service.through.size === 0) this.#services.delete(key.service);
  }

  stop(): void {
    this.#end?.();
    this.#services.clear();
  }

  #of(name: string): Service {
    const known = this.#services.get(name) ?? { waiting: new Map(), through: new Map() };
    this.#services.set(name, known);
    return known;
  }

  #look(key: JobKey): void {
    this.#letThrough(key.service).catch((problem: unknown) => this.#deps.report(problem, key));
  }

  async #letThrough(name: string): Promise<void> {
    const most = await this.#most(name);
    // Only now: others may have been let through, or have left, meanwhile.
    const service = this.#services.get(name);
    if (!service) return;
    for (const [id, call] of service.waiting) {
      if (service.through.size >= most) return;
      service.waiting.delete(id);
      service.through.set(id, call);
      if (this.#deps.runner.standby?.take(call.key)) this.#deps.begin(call);
      else this.#deps.wait(call);
    }
  }

  /** A service that is gone bounds nothing: its jobs end by that. Nor does one that cannot be read: calls would hang. */
  async #most(name: string): Promise<number> {
    const found = await this.#deps.services.get(name).catch((problem: unknown) => {
      this.#deps.report(problem, { service: name, id: '' });
      return undefined;
    });
    return found?.service.definition.synchronous.max_scale || Number.POSITIVE_INFINITY;
  }

  /** A place is ready: it is for the first that waits for room. */
  #placed(service: string): void {
    for (const call of this.#services.get(service)?.through.values() ?? []) {
      if (!this.#deps.waits(call.key)) continue;
      if (this.#deps.runner.standby?.take(call.key)) this.#deps.begin(call);
      return;
    }
  }
}
