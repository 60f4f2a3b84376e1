import type { Capacity, JobKey } from '../cluster/index.ts';
import { Calls, type CallsDeps } from './calls.ts';
import { HeldBack } from './held-back.ts';
import { roomName as nameOf, type Waiter } from './jobs.ts';
import { OutOfLine } from './out-of-line.ts';
import { type Blocked, FairQueue, type Waiting } from './queue.ts';

export interface WaitingRoomDeps extends Omit<CallsDeps, 'wait' | 'waits' | 'begin'> {
  readonly capacity: Pick<Capacity, 'refusal' | 'reserve' | 'obstacle'>;
  /** It is its turn, and it has its room. */
  readonly begin: (job: Waiting) => void;
  /** Why it waits. */
  readonly explain: (key: JobKey, message: string) => void;
  /** Told of each that the cluster has not let start for a while. */
  readonly heldLong: (key: JobKey) => void;
}

/**
 * Where jobs wait until they can start here: in line for room; out of it, where they hold up nobody, if no node could take
 * them, others leave no room for them or the cluster does not let them start; or behind other calls of their service.
 */
export class WaitingRoom {
  readonly #deps: WaitingRoomDeps;
  readonly #queue = new FairQueue();
  readonly #refused = new OutOfLine();
  /** For which there is too little room beside what others run. */
  readonly #aside = new OutOfLine();
  readonly #heldBack: HeldBack;
  readonly #calls: Calls;
  #closed = false;

  constructor(deps: WaitingRoomDeps) {
    this.#deps = deps;
    this.#heldBack = new HeldBack(deps.heldLong);
    this.#calls = new Calls({
      ...deps,
      wait: (call) => {
        this.#queue.add(call);
        this.fill();
      },
      waits: (key) => this.#queue.has(key) || this.#aside.has(key),
      begin: (call) => {
        this.#queue.remove(call.key);
        if (!this.#closed) this.#begin(call);
      },
    });
  }

  /** How many wait for room that is ours to give. */
  get size(): number {
    return this.#queue.size;
  }

  /** Is there no room for it now? */
  waitsForRoom(key: JobKey): boolean {
    return this.#refused.has(key) || this.#aside.has(key) || this.#queue.has(key);
  }

  isHeld(key: JobKey): boolean {
    return this.#heldBack.has(key);
  }

  /** Again: nothing happens. What is in line already was let in since the job was read. */
  enter(job: Waiter): void {
    const waiting = waitingOf(job);
    if (job.held !== undefined) {
      if (!this.#isInLine(waiting.key)) this.#heldBack.add(waiting);
      return;
    }
    this.#heldBack.take(waiting.key);
    this.#settle(waiting);
  }

  /** What could not begin after all. */
  enterAgain(waiting: Waiting, held: boolean): void {
    if (held) this.#heldBack.add(waiting);
    else {
      this.#line(waiting);
      this.fill();
    }
  }

  /** The cluster may have let it start, or have changed its mind about one that waits for room. */
  follow(job: Waiter): void {
    const waiting = waitingOf(job);
    if (job.held === undefined) {
      if (this.#heldBack.take(waiting.key)) this.#settle(waiting);
    } else if (this.#isInLine(waiting.key)) {
      this.leave(waiting.key);
      this.#calls.leave(waiting.key);
      this.#heldBack.add(waiting);
    }
  }

  /** It does not wait any more. Of one that is not here: nothing. */
  leave(key: JobKey): void {
    this.#queue.remove(key);
    this.#refused.remove(key);
    this.#aside.remove(key);
    this.#heldBack.take(key);
  }

  /** A call that runs already, whatever its service says. */
  hold(job: Waiter): void {
    this.#calls.hold(waitingOf(job));
  }

  /** It does not run any more, if it did: the next call of its service may. */
  over(key: JobKey): void {
    this.#calls.leave(key);
  }

  /** There may be more room than before: also for those that were too large for a cluster that has grown since. */
  refill(): void {
    const { capacity, explain } = this.#deps;
    const back = this.#aside.takeFitting((demand) => capacity.obstacle(demand) !== 'others');
    const fitting = this.#refused.takeFitting((demand) => capacity.refusal(demand) === undefined);
    for (const { key } of [...back, ...fitting]) explain(key, 'waits for room');
    for (const waiting of back) this.#queue.add(waiting);
    for (const waiting of fitting) this.#line(waiting);
    this.fill();
  }

  /** Begins whatever has room now. */
  fill(): void {
    while (!this.#closed) {
      const next = this.#queue.take(
        ({ key, demand }) => this.#deps.capacity.reserve(nameOf(key), demand),
        this.#blocked,
      );
      if (!next) return;
      this.#begin(next);
    }
  }

  /** Nobody begins any more. */
  close(): void {
    this.#closed = true;
    this.#calls.stop();
    this.#heldBack.stop();
  }

  readonly #blocked: Blocked = {
    obstacleOf: ({ demand }) => this.#deps.capacity.obstacle(demand),
    setAside: (waiting) => {
      this.#aside.add(waiting);
      this.#deps.explain(waiting.key, ASIDE);
    },
  };

  /** Or was. */
  #isInLine(key: JobKey): boolean {
    return this.#queue.has(key) || this.#aside.has(key);
  }

  #begin(waiting: Waiting): void {
    this.#refused.remove(waiting.key);
    this.#aside.remove(waiting.key);
    this.#deps.begin(waiting);
  }

  /** In line, if there could be room for it. */
  #settle(waiting: Waiting): void {
    const refusal = this.#deps.capacity.refusal(waiting.demand);
    if (refusal === undefined) this.#line(waiting);
    else {
      // In line it would hold up everything of its owner. It waits in its record, where it can be seen and cancelled.
      this.#refused.add(waiting);
      this.#deps.explain(waiting.key, refusal);
    }
    this.fill();
  }

  #line(waiting: Waiting): void {
    if (waiting.call) this.#calls.add(waiting);
    else this.#queue.add(waiting);
  }
}

const ASIDE = 'waits: what others run in the cluster leaves too little room for it, or its nodes take no work now';

const waitingOf = ({ service, id, owner, demand, trigger }: Waiter): Waiting => ({
  key: { service, id },
  owner,
  demand,
  call: trigger === 'run',
});
