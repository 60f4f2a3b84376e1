import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { readStorageEvents } from '../../model/job/index.ts';
import type { Backlog, EventSource, PendingEvent } from '../../ports/index.ts';
import type { Jobs } from '../jobs.ts';
import { submitEvent } from './storage-events.ts';

export interface EventPumpOptions {
  readonly source: EventSource;
  readonly jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'storeAccount'>;
  /** Told of what could not be done. It is tried again, unless it is about an event that nobody can read. */
  readonly report: (problem: unknown) => void;
  /** Milliseconds to wait before the n-th try after the first. */
  readonly wait?: (tries: number) => number;
  /** How long an event may take, in milliseconds. */
  readonly deadline?: number;
}

/**
 * Events that are worked on at the same time. Fewer: each pays more of the two trips to the disk, that of the jobs and
 * that of the acknowledgement. More: an event that comes now waits longer for those before it.
 */
const BATCH = 256;

/**
 * An event that takes longer is tried again later, so that those behind it go on. Shorter: a slow store is asked twice,
 * which is harmless. Longer: all events wait for one.
 */
const DEADLINE = 30_000;

const FIRST_BACKOFF = 250;

/** Shorter: what fails for a reason of its own is tried more often for nothing. Longer: more waits after an outage. */
const MAX_BACKOFF = 10_000;

/** An event that could not be made a job. It stays with the source; here is only which, and when it has its next turn. */
interface Failed {
  readonly tries: number;
  readonly due: number;
}

/**
 * Makes jobs out of the events that a store keeps. An event is acknowledged once its jobs are on the disk: whoever dies
 * in between is given it again, and a job that exists is not made twice. One that fails is tried again and again, while
 * those behind it go on; while none of the new ones gets through, they are taken ever more slowly.
 */
export class EventPump {
  readonly #options: Required<EventPumpOptions>;
  readonly #failed = new Map<number, Failed>();
  readonly #stopping = new AbortController();
  /** Settled, and not acknowledged yet. */
  #settled: number[] = [];
  /** Up to here everything was taken once. */
  #taken = 0;
  /** How often in a row nothing new got through. */
  #stuck = 0;
  #woken = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;

  constructor(options: EventPumpOptions) {
    this.#options = { wait: backoff, deadline: DEADLINE, ...options };
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Waits for the events that are being worked on. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#woken.resolve();
    await this.#running;
  }

  /** What waits to become a job. */
  backlog(): Promise<Backlog> {
    return this.#options.source.backlog();
  }

  async #run(): Promise<void> {
    const ends = this.#options.source.onEvents(() => this.#woken.resolve());
    while (!this.#stopping.signal.aborted) {
      // Before it looks, so that what comes meanwhile is not slept through.
      this.#woken = Promise.withResolvers();
      try {
        if (!(await this.#step())) await this.#sleep();
        // Stores in this process may answer at once, and then nobody else would ever have a turn.
        await turn();
        this.#stuck = 0;
      } catch (error) {
        this.#options.report(error);
        this.#stuck++;
        await this.#pause(this.#options.wait(this.#stuck));
      }
    }
    ends();
  }

  /** One batch. False when there is nothing to do; throws when nothing new got through. */
  async #step(): Promise<boolean> {
    const again = await this.#again();
    const next = await this.#next();
    const problems = await this.#submitAll([...again, ...next]);
    await this.#acknowledge();
    const stuck = next.length > 0 && problems.slice(again.length).every((problem) => problem !== undefined);
    const first = problems.find((problem) => problem !== undefined);
    if (stuck) throw first;
    if (first !== undefined) this.#options.report(first);
    return problems.length > 0;
  }

  async #next(): Promise<PendingEvent[]> {
    const events = await this.#options.source.take(BATCH, this.#taken);
    this.#taken = events.at(-1)?.number ?? this.#taken;
    return events;
  }

  /** Those that failed and whose turn it is. */
  async #again(): Promise<PendingEvent[]> {
    const now = performance.now();
    const due = [...this.#failed].filter(([, failed]) => failed.due <= now).slice(0, BATCH);
    const found = await Promise.all(
      due.map(async ([number]) => {
        const [event] = await this.#options.source.take(1, number - 1);
        if (event?.number === number) return [event];
        // Somebody else has acknowledged it.
        this.#failed.delete(number);
        return [];
      }),
    );
    return found.flat();
  }

  /** What went wrong with each, if anything. */
  async #submitAll(events: readonly PendingEvent[]): Promise<unknown[]> {
    const over = new AbortController();
    const late = pause(this.#options.deadline, undefined, { signal: over.signal }).then(
      () => new Error('an event could not be made a job in time: it will be tried again'),
      () => undefined,
    );
    const outcomes = await Promise.all(
      events.map(async (event) => {
        const problem = await Promise.race([this.#submit(event), late]);
        this.#note(event.number, problem);
        return problem;
      }),
    );
    over.abort();
    return outcomes;
  }

  async #submit({ json }: PendingEvent): Promise<unknown> {
    try {
      for (const event of readStorageEvents(this.#read(json))) await submitEvent(event, json, this.#options.jobs);
      return undefined;
    } catch (error) {
      return error ?? new Error('an event could not be made a job');
    }
  }

  #read(json: Uint8Array): unknown {
    try {
      return JSON.parse(Buffer.from(json).toString());
    } catch (cause) {
      this.#options.report(new Error('an event of the store is not JSON: it is left out', { cause }));
      return undefined;
    }
  }

  #note(number: number, problem: unknown): void {
    if (problem === undefined) {
      this.#failed.delete(number);
      this.#settled.push(number);
      return;
    }
    const tries = (this.#failed.get(number)?.tries ?? 0) + 1;
    this.#failed.set(number, { tries, due: performance.now() + this.#options.wait(tries) });
  }

  async #acknowledge(): Promise<void> {
    if (this.#settled.length === 0) return;
    const numbers = this.#settled;
    await this.#options.source.acknowledge(numbers);
    this.#settled = [];
  }

  /** Until there are new events, or one that failed has its turn. */
  async #sleep(): Promise<void> {
    let due = Number.POSITIVE_INFINITY;
    for (const failed of this.#failed.values()) due = Math.min(due, failed.due);
    if (due === Number.POSITIVE_INFINITY) await this.#woken.promise;
    else await Promise.race([this.#woken.promise, this.#pause(due - performance.now())]);
  }

  async #pause(ms: number): Promise<void> {
    await pause(Math.max(0, ms), undefined, { signal: this.#stopping.signal, ref: false }).catch(() => undefined);
  }
}

/** Doubled each time, and a little by chance, so that what failed together does not come back together. */
function backoff(tries: number): number {
  const wait = Math.min(FIRST_BACKOFF * 2 ** (tries - 1), MAX_BACKOFF);
  return wait * (0.5 + Math.random() / 2);
}
