import { setTimeout as pause } from 'node:timers/promises';
import { EngineError } from './engine.ts';

/** Between two tries: at first as long as a restarted daemon could be back in, then without bothering anybody. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;

export interface Patience {
  readonly signal: AbortSignal;
  /** Milliseconds in which the daemon must be back; `Infinity` for what may only be known from it. */
  readonly within: number;
  readonly whenAway?: () => void;
}

/** Tries again for as long as the daemon cannot be reached. Only for what may be done twice. */
export async function patiently<T>(task: () => Promise<T>, { signal, within, whenAway }: Patience): Promise<T> {
  const end = performance.now() + within;
  for (let wait = FIRST_PAUSE; ; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
    try {
      return await task();
    } catch (error) {
      const away = error instanceof EngineError && error.code === 'unreachable';
      if (!away || performance.now() + wait > end) throw error;
    }
    whenAway?.();
    await pause(wait, undefined, { signal });
  }
}
