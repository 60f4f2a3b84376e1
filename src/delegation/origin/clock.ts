/** What time says, and who is called when. Tests have one that is set by hand. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Calls once, at that time or soon after. What it returns undoes that. */
  at(time: number, call: () => void): () => void;
}

/** Timers hold no more; whoever is called too early looks at the time again. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Nothing that waits here keeps the process alive: it is in the records. */
export const realClock: Clock = {
  now: Date.now,
  at(time, call) {
    const timer = setTimeout(call, Math.min(Math.max(0, time - Date.now()), LONGEST_TIMER));
    timer.unref();
    return () => clearTimeout(timer);
  },
};
