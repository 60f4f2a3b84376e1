import { OscarError } from '../../../lib/oscar-error.ts';
import { Secret } from '../../../lib/secret.ts';
import { PeerError } from '../../../peers/index.ts';
import type { Coordination } from '../coordination.ts';
import { Reconciler, recoverFederations } from '../reconcile.ts';
import { coordination, type World } from './coordinator.fixture.ts';
import { Crash, type Passage } from './model-cluster.fixture.ts';

/** What happens to one request to a member. `late`: it takes effect after its caller has given up. */
export type Fault = 'none' | 'before' | 'after' | 'late';

/** The write, counted over the whole run, at which the coordinator crashes, before or after the write takes effect. */
interface CrashAt {
  readonly write: number;
  readonly effect: boolean;
}

export interface Schedule {
  readonly faults: readonly Fault[];
  readonly crashes: readonly CrashAt[];
  /** The number of further requests after which a late one arrives. */
  readonly delay: number;
}

/** A world with the faults of the schedule, until it is healed. */
export class Weather {
  readonly #schedule: Schedule;
  #requests = 0;
  #writes = 0;
  #healed = false;
  #late: { at: number; effect: () => unknown }[] = [];

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  /** One process of the coordinator, until it crashes. */
  passage(): Passage {
    let isDead = false;
    const check = () => {
      if (isDead) throw new Crash();
    };
    return {
      write: (effect) => {
        check();
        const write = this.#writes++;
        const crash = this.#healed ? undefined : this.#schedule.crashes.find((each) => each.write === write);
        if (!crash) return effect();
        isDead = true;
        if (crash.effect) effect();
        throw new Crash();
      },
      request: (_cluster, _call, effect) => {
        check();
        return this.#request(effect);
      },
    };
  }

  #request<T>(effect: () => T): T {
    const request = this.#requests++;
    this.#deliver(request);
    const fault = this.#healed ? 'none' : (this.#schedule.faults[request] ?? 'none');
    if (fault === 'none') return effect();
    if (fault === 'after') effect();
    if (fault === 'late') this.#late.push({ at: request + this.#schedule.delay, effect });
    throw new PeerError('unreachable', 'it did not answer');
  }

  #deliver(request: number): void {
    const due = this.#late.filter(({ at }) => at <= request);
    this.#late = this.#late.filter(({ at }) => at > request);
    for (const { effect } of due) quietly(effect);
  }

  /** The number of jobs of a member: some have a few until the world is healed. */
  outstanding(): number {
    return this.#healed ? 0 : this.#requests % 2;
  }

  heal(): void {
    this.#healed = true;
  }

  /** Delivers all requests that are in flight. */
  settle(): void {
    this.#deliver(Number.POSITIVE_INFINITY);
  }
}

/** No caller waits for the answer of a late request. */
function quietly(effect: () => unknown): void {
  try {
    effect();
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
  }
}

/** A clock that only the test advances. */
export class Clock {
  #now = 1_000_000;
  readonly now = () => this.#now;
  /** Long enough for any task to count as abandoned, and for every back-off to end. */
  pass(): void {
    this.#now += 3_600_000;
  }
}

export interface Life {
  readonly world: World;
  readonly weather: Weather;
  readonly clock: Clock;
}

export const live = ({ world, weather, clock }: Life): Coordination =>
  coordination(world, weather.passage(), {
    now: clock.now,
    getOwnerToken: async () => new Secret('minted'),
    outstanding: async () => weather.outstanding(),
  });

/** Runs an action. If the coordinator crashes, a new process recovers what it left. */
export async function attempt(
  life: Life,
  work: (deps: Coordination) => Promise<unknown>,
): Promise<'done' | 'refused' | 'died'> {
  try {
    await work(live(life));
    return 'done';
  } catch (error) {
    if (error instanceof OscarError) return 'refused';
    if (!(error instanceof Crash)) throw error;
    for (;;) {
      life.clock.pass();
      try {
        await recoverFederations(life.clock.now(), live(life));
        return 'died';
      } catch (again) {
        if (!(again instanceof Crash)) throw again;
      }
    }
  }
}

/** Heals the network, delivers late requests, and reconciles until nothing changes. */
export async function quieten(life: Life): Promise<void> {
  life.weather.heal();
  for (let round = 1; round <= 2; round++) {
    const deps = live(life);
    await recoverFederations(life.clock.now() + 1, deps);
    const reconciler = new Reconciler(deps, {
      report: (error) => {
        throw error;
      },
    });
    for (let pass = 0; pass < 4; pass++) {
      life.clock.pass();
      await reconciler.pass();
    }
    life.weather.settle();
  }
}
