import type { Logger } from 'pino';
import type { EventTrouble } from './event-trouble.ts';

/** What is kept of a store that can be started anew, with other settings, at any time. */
export interface EventWatch {
  /** Why it does not report new objects now. What has changed since the last time is told in the log, once. */
  look(): Promise<EventTrouble | undefined>;
}

/** `eased` is called when it lacks less than before: rules that could not be made then can be made now. */
export function watchEvents(
  ask: () => Promise<EventTrouble | undefined>,
  log: Pick<Logger, 'info' | 'warn'>,
  eased: () => void,
): EventWatch {
  let told: readonly string[] | undefined;
  return {
    async look() {
      const trouble = await ask();
      const set = trouble?.set ?? [];
      const before = told;
      if (before?.join('\n') === set.join('\n')) return trouble;
      told = set;
      if (trouble) log.warn({ set }, trouble.problem);
      else if (before) log.info('the object store reports new objects again');
      if (before && set.length < before.length) eased();
      return trouble;
    },
  };
}
