import { once } from 'node:events';

/** A term of leadership. Work that is started in a term ends with it. */
export interface Term {
  /** Aborts when the term ends. */
  readonly signal: AbortSignal;
  /** Registers clean-up for the end of the term. It runs in reverse order, before another term begins. */
  readonly defer: (end: () => unknown) => void;
}

/** Work of the leader. Resolves when it has started. */
export type Duty = (term: Term) => Promise<void>;

/**
 * Runs the duties of the leader in each term of this manager. Leadership only saves work and correctness never depends on it:
 * a manager that was paused may still act as the leader for a moment.
 */
export interface Leadership {
  /** Runs a duty before the server accepts requests, if this is the only manager. */
  first(duty: Duty): Promise<void>;
  /** Runs the remaining duties. Called once, when this manager can be reached. */
  begin(duty: Duty): Promise<void>;
  /** Ends the current term and starts no other. */
  end(): Promise<void>;
}

/** For a single manager: one term from start to stop. */
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

/** Elects the leader. */
export interface Vote {
  start(): void;
  stop(): Promise<void>;
}

/** For one of several managers: a term each time that it is elected. `vote` gets the duties of a term. */
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
