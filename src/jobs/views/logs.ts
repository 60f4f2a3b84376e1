import { isFinal, type JobRecord } from '../../model/job/index.ts';
import { type LogOptions, StoreError } from '../../ports/index.ts';
import type { Jobs } from '../jobs.ts';

/**
 * The log of the last attempt of a job. With `follow` it waits for the attempt to start, and ends when it ends. It is empty
 * for a job that was never started.
 */
export async function* readLog(
  record: JobRecord,
  options: LogOptions,
  jobs: Pick<Jobs, 'runner' | 'store'>,
): AsyncGenerator<Uint8Array> {
  const { follow, signal } = options;
  let current: JobRecord | undefined = record;
  while (current) {
    if (follow) current = await waitUntilJob(current, ({ attempts }) => attempts.length > 0, signal, jobs);
    const attempt = current?.attempts.at(-1);
    if (!current || !attempt) return;
    try {
      yield* jobs.runner.logs(attempt.name, options);
      return;
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'absent') throw error;
    }
    // The log was lost with its machine, or the attempt is in the record and about to start: then wait for a change.
    if (!follow || isFinal(current.state) || signal?.aborted) return;
    const { version } = current;
    current = await waitUntilJob(current, (job) => job.version !== version, signal, jobs);
  }
}

/** Resolves to the job once the condition holds, it has ended, or the signal aborts; to undefined if it was removed. */
export async function waitUntilJob(
  record: JobRecord,
  condition: (job: JobRecord) => boolean,
  signal: AbortSignal | undefined,
  { store }: Pick<Jobs, 'store'>,
): Promise<JobRecord | undefined> {
  let wake = () => {};
  const wakeUp = () => wake();
  const ends = store.onChange(wakeUp);
  signal?.addEventListener('abort', wakeUp, { once: true });
  try {
    for (;;) {
      const { promise: woken, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const job = await store.get(record);
      if (!job || condition(job) || isFinal(job.state) || signal?.aborted) return job;
      await woken;
    }
  } finally {
    signal?.removeEventListener('abort', wakeUp);
    ends();
  }
}
