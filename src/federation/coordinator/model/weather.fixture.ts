import { OscarError } from '../../../lib/oscar-error.ts';
import { Secret } from '../../../lib/secret.ts';
import { PeerError } from '../../../peers/index.ts';
import type { Coordination } from '../coordination.ts';
import { Reconciler, recoverFederations } from '../reconcile.ts';
import { coordination, type World } from './coordinator.fixture.ts';
import { Crash, type Passage } from './model-cluster.fixture.ts';

/** What becomes of one request to a member. `late`: it takes effect when nobody reckons with it any more. */
export type Fault = 'none' | 'before' | 'after' | 'late';

/** At which of its writes, counted over all of a run, the coordinator dies: before it took effect, or after. */
interface CrashAt {
  readonly write: number;
  readonly effect: boolean;
}

export interface Schedule {
  readonly faults: readonly Fault[];
  readonly crashes: readonly CrashAt[];
  /** After how many further requests a late one arrives. */
  readonly delay: number;
}

/** A world in which things go wrong as the schedule says, until it is healed. */
export class Weather {
  readonly #schedule: Schedule;
  #requests = 0;
  #writes = 0;
  #healed = false;
  #late: { at: number; effect: () => unknown }[] = [];

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
  }

  /** One life of the coordinator. */
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

  /** How many jobs a member holds: some have a few, until all is well. */
  outstanding(): number {
    return this.#healed ? 0 : this.#requests % 2;
  }

  heal(): void {
    this.#healed = true;
  }

  /** Everything that was on its way arrives. */
  settle(): void {
    this.#deliver(Number.POSITIVE_INFINITY);
  }
}

/** Nobody waits for the answer of a request that comes late. */
function quietly(effect: () => unknown): void {
  try {
    effect();
  } catch (error) {
    if (!(error instanceof PeerError)) throw error;
  }
}

/** A clock that only tests move. */
export class Clock {
  #now = 1_000_000;
  readonly now = () => this.#now;
  /** Long enough for anything to count as abandoned, and for every member to have its turn again. */
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

/** Does something; if the coordinator dies of it, another life settles what it left. */
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

/** The network is well again, and what was late arrives: passes are made until nothing changes. */
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
