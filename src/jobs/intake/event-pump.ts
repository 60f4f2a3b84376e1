import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';
import { backoffDelay } from '../../lib/retry.ts';
import { readStorageEvents } from '../../model/job/index.ts';
import type { Backlog, EventSource, PendingEvent } from '../../ports/index.ts';
import type { Jobs } from '../jobs.ts';
import { submitEvent } from './storage-events.ts';

export interface EventPumpOptions {
  readonly source: EventSource;
  readonly jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place' | 'services' | 'storeAccount'>;
  /** Called with errors. The event is tried again, unless it is not JSON. */
  readonly report: (problem: unknown) => void;
  /** Milliseconds to wait before the n-th retry. */
  readonly wait?: (tries: number) => number;
  /** Longest time for one event, in milliseconds. */
  readonly deadline?: number;
}

/**
 * Events that are processed together. With fewer, each event pays more for the two writes to the disk, the jobs and the
 * acknowledgement; with more, a new event waits longer for those before it.
 */
const BATCH = 256;

/**
 * An event that takes longer is tried again later, so that the events behind it go on. A shorter deadline repeats requests to
 * a slow store, which is harmless; with a longer one all events wait for one.
 */
const DEADLINE = 30_000;

const FIRST_BACKOFF = 250;

/** A shorter maximum retries permanently failing events more often; a longer one delays events after an outage. */
const MAX_BACKOFF = 10_000;

/** An event that failed. The source still has it; only its number and the time of its next try are kept here. */
interface Failed {
  readonly tries: number;
  readonly due: number;
}

/**
 * Creates jobs from the events of the embedded store. An event is acknowledged once the records of its jobs are durable: a
 * manager that dies in between gets it again, and the same event is the same job. A failed event is retried while the events
 * behind it go on. While all new events fail, the pump reads them with a growing back-off.
 */
export class EventPump {
  readonly #options: Required<EventPumpOptions>;
  readonly #failed = new Map<number, Failed>();
  readonly #stopping = new AbortController();
  /** Processed, and not acknowledged yet. */
  #settled: number[] = [];
  /** The number of the last event that was taken. */
  #taken = 0;
  /** How many batches in a row failed for all new events. */
  #stuck = 0;
  #woken = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;

  constructor(options: EventPumpOptions) {
    this.#options = { wait: backoff, deadline: DEADLINE, ...options };
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Waits for the events in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#woken.resolve();
    await this.#running;
  }

  /** Events that are not acknowledged yet. */
  backlog(): Promise<Backlog> {
    return this.#options.source.backlog();
  }

  async #run(): Promise<void> {
    const ends = this.#options.source.onEvents(() => this.#woken.resolve());
    while (!this.#stopping.signal.aborted) {
      // Set up the wake-up before reading, so that an event during the read is not missed.
      this.#woken = Promise.withResolvers();
      try {
        if (!(await this.#step())) await this.#sleep();
        // A store in this process may answer at once, and then no other work would get its turn.
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

  /** Processes one batch. False if there was nothing to do; throws if all new events failed. */
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

  /** Failed events whose retry is due. */
  async #again(): Promise<PendingEvent[]> {
    const now = performance.now();
    const due = [...this.#failed].filter(([, failed]) => failed.due <= now).slice(0, BATCH);
    const found = await Promise.all(
      due.map(async ([number]) => {
        const [event] = await this.#options.source.take(1, number - 1);
        if (event?.number === number) return [event];
        // Another process has acknowledged it.
        this.#failed.delete(number);
        return [];
      }),
    );
    return found.flat();
  }

  /** The error of each event, or undefined. */
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

  /** Sleeps until there are new events, or the retry of a failed one is due. */
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

/** Doubles each time, with jitter, so that events that failed together are not retried together. */
function backoff(tries: number): number {
  return backoffDelay(tries, { first: FIRST_BACKOFF, longest: MAX_BACKOFF }, Math.random());
}
