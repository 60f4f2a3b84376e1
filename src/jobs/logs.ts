import { type JobRecord, type LogOptions, StoreError } from '../cluster/index.ts';
import type { Jobs } from './jobs.ts';
import { isFinal } from './state.ts';

/**
 * What the script of a job printed. With `follow` it begins when the job does and ends with it. Of a job that was never
 * started, the reason is all there is.
 */
export async function* readLog(
  record: JobRecord,
  options: LogOptions,
  jobs: Pick<Jobs, 'runner' | 'store'>,
): AsyncGenerator<Uint8Array> {
  const begun = options.follow ? await untilBegun(record, options.signal, jobs) : record;
  const attempt = begun?.attempts.at(-1);
  if (!attempt) return;
  try {
    yield* jobs.runner.logs(attempt.name, options);
  } catch (error) {
    // The attempt was not begun yet, or its log is gone with the machine it was on: there is nothing to show.
    if (!(error instanceof StoreError) || error.code !== 'absent') throw error;
  }
}

async function untilBegun(
  record: JobRecord,
  signal: AbortSignal | undefined,
  { store }: Pick<Jobs, 'store'>,
): Promise<JobRecord | undefined> {
  let current: JobRecord | undefined = record;
  while (current && current.attempts.length === 0 && !isFinal(current.state) && !signal?.aborted) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const ends = store.onChange(resolve);
    signal?.addEventListener('abort', () => resolve(), { once: true });
    current = await store.get(record);
    if (current && current.attempts.length === 0 && !isFinal(current.state)) {
      await promise;
      current = await store.get(record);
    }
    ends();
  }
  return current;
}
