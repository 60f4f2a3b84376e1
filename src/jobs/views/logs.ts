import { isFinal, type JobRecord } from '../../model/job/index.ts';
import { type LogOptions, StoreError } from '../../ports/index.ts';
import type { Jobs } from '../jobs.ts';

/**
 * What the script of a job printed. With `follow` it begins when the job does and ends with it. Of a job that was never
 * started, the reason is all there is.
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
    // Its log is gone with the machine it was on: there is nothing to show. Or it is written down and about to start.
    if (!follow || isFinal(current.state) || signal?.aborted) return;
    const { version } = current;
    current = await waitUntilJob(current, (job) => job.version !== version, signal, jobs);
  }
}

/** The job, once it is so, or has ended, or nobody waits any more. Undefined when it is gone. */
export async function waitUntilJob(
  record: JobRecord,
  isSo: (job: JobRecord) => boolean,
  signal: AbortSignal | undefined,
  { store }: Pick<Jobs, 'store'>,
): Promise<JobRecord | undefined> {
  let wake = () => {};
  const ring = () => wake();
  const ends = store.onChange(ring);
  signal?.addEventListener('abort', ring, { once: true });
  try {
    for (;;) {
      const { promise: rung, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const job = await store.get(record);
      if (!job || isSo(job) || isFinal(job.state) || signal?.aborted) return job;
      await rung;
    }
  } finally {
    signal?.removeEventListener('abort', ring);
    ends();
  }
}
