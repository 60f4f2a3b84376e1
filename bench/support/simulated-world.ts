import type { Clock } from '../../src/lib/clock.ts';
import { Heap } from '../../src/lib/heap.ts';
import { PeerError } from '../../src/peers/index.ts';

interface Timer {
  readonly at: number;
  /** Timers of the same time are called in the order in which they were set. */
  readonly order: number;
  call: (() => void) | undefined;
}

/** A clock that jumps from one timer to the next. What is called takes no time. */
export class SimulatedClock implements Clock {
  readonly #timers = new Heap<Timer>((a, b) => a.at < b.at || (a.at === b.at && a.order < b.order));
  #now = 0;
  #set = 0;

  readonly now = (): number => this.#now;

  at(time: number, call: () => void): () => void {
    const timer: Timer = { at: Math.max(time, this.#now), order: this.#set++, call };
    this.#timers.push(timer);
    return () => {
      timer.call = undefined;
    };
  }

  after(ms: number, call: () => void): () => void {
    return this.at(this.#now + ms, call);
  }

  /** Calls one timer after the other, each after all promises of the one before have settled, until the condition holds. */
  async runUntil(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const next = this.#timers.pop();
      if (!next) throw new Error('the simulation stands still: no timer is set');
      if (!next.call) continue;
      this.#now = next.at;
      next.call();
      await settled();
    }
  }
}

/** Resolves when no promise job is left: everything simulated happens in promise jobs. */
const settled = () => new Promise((resolve) => void setImmediate(resolve));

/** The same numbers in [0, 1) for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface NetworkOptions {
  /** Of each direction, on average. */
  readonly linkMs: number;
  /** The share of messages that are lost. */
  readonly loss: number;
}

/** Where a request goes to. */
interface Receiver {
  readonly isUp: boolean;
}

/** Requests between managers. Each direction takes time, and each message may be lost. */
export class SimulatedNetwork {
  /** Requests that were sent so far. */
  requests = 0;
  readonly #clock: SimulatedClock;
  readonly #random: () => number;
  readonly #options: NetworkOptions;

  constructor(clock: SimulatedClock, random: () => number, options: NetworkOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#options = options;
  }

  /** Rejects with a `PeerError` if the receiver is down, or if there is no answer in time. */
  request<T>(receiver: Receiver, deadlineMs: number, handle: () => Promise<T>): Promise<T> {
    this.requests++;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const expire = this.#clock.after(deadlineMs, () => reject(new PeerError('unreachable', 'no answer in time')));
    const answer = (settle: () => void) =>
      this.#deliver(() => {
        expire();
        settle();
      });
    this.#deliver(() => {
      if (!receiver.isUp) return answer(() => reject(new PeerError('unreachable', 'connection refused')));
      handle().then(
        (value) => answer(() => resolve(value)),
        (error: unknown) => answer(() => reject(error)),
      );
    });
    return promise;
  }

  #deliver(arrive: () => void): void {
    const { linkMs, loss } = this.#options;
    const isLost = this.#random() < loss;
    const jitter = 0.75 + this.#random() / 2;
    if (!isLost) this.#clock.after(linkMs * jitter, arrive);
  }
}
