import { setTimeout as pause } from 'node:timers/promises';
import { TransferError } from './remote-store.ts';

/** A store that restarts is back after some seconds; one that is away for longer is the job's affair, which is tried again. */
const TRIES = 4;

/** Before the second try; twice as long before each further one. */
const FIRST_PAUSE = 200;

/** Does it again after failures that may pass. */
export async function retried<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof TransferError && error.retryable) || attempt === TRIES || signal?.aborted) throw error;
    }
    // Many jobs lose the same store at the same moment: they shall not all come back at the same moment.
    await pause(FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + Math.random()), undefined, signal ? { signal } : {});
  }
}
