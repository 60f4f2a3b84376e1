import { once } from 'node:events';

/** The time in which this manager leads: what is begun in it ends with it. */
export interface Term {
  /** Aborts when it is over. */
  readonly signal: AbortSignal;
  /** What is done then, the last first, before another begins. */
  readonly defer: (end: () => unknown) => void;
}

/** Something that one manager of a cluster does. Resolves when it has begun. */
export type Duty = (term: Term) => Promise<void>;

/**
 * Has the duties of the leader done while this manager is the one, each time from the beginning. It saves work and is never
 * what correctness rests on: a manager that was paused may believe in itself for a moment longer.
 */
export interface Leadership {
  /** Done before anybody is served, where there is no other manager who may have done it. */
  first(duty: Duty): Promise<void>;
  /** The rest of it; to be called once, when this manager can be reached. */
  begin(duty: Duty): Promise<void>;
  /** Ends the term, if there is one, and begins no other. */
  end(): Promise<void>;
}

/** Of a manager that is the only one: one term, from the start to the end. */
export function alwaysLeading(): Leadership {
  const over = new AbortController();
  const ends = new AsyncDisposableStack();
  const term: Term = { signal: over.signal, defer: (end) => ends.defer(async () => void (await end())) };
  return {
    first: (duty) => duty(term),
    begin: (duty) => duty(term),
    async end() {
      over.abort();
      await ends.disposeAsync();
    },
  };
}

/** What decides who leads. */
export interface Vote {
  start(): void;
  stop(): Promise<void>;
}

/** Of one of several: a term each time that it is voted for. `vote` is given what is to be done in it. */
export function leadingBy(vote: (onLead: (signal: AbortSignal) => Promise<void>) => Vote): Leadership {
  const duties: Duty[] = [];
  const leading = vote((signal) => during(signal, duties));
  return {
    async first(duty) {
      duties.push(duty);
    },
    async begin(duty) {
      duties.push(duty);
      leading.start();
    },
    end: () => leading.stop(),
  };
}

async function during(voted: AbortSignal, duties: readonly Duty[]): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const failed = new AbortController();
  const signal = AbortSignal.any([voted, failed.signal]);
  const term: Term = { signal, defer: (end) => ends.defer(async () => void (await end())) };
  try {
    for (const duty of duties) if (!signal.aborted) await duty(term);
    if (!signal.aborted) await once(signal, 'abort');
  } finally {
    failed.abort();
  }
}
