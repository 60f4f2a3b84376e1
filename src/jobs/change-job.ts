import type { JobKey, JobProgress, JobRecord } from '../model/job/index.ts';
import { type JobStore, StoreError } from '../ports/index.ts';

/**
 * Changes a record as often as it takes to be the one whose change counts. `decide` says what to do with the record as it
 * is by then, or undefined when nothing is to be done any more. Resolves to the record that was written, or undefined.
 */
export async function changeJob(
  key: JobKey,
  store: Pick<JobStore, 'get' | 'update'>,
  decide: (record: JobRecord) => Partial<JobProgress> | undefined,
  known?: JobRecord,
): Promise<JobRecord | undefined> {
  for (let record = known ?? (await store.get(key)); record; record = await store.get(key)) {
    const change = decide(record);
    if (!change) return undefined;
    try {
      return await store.update(key, record.version, change);
    } catch (error) {
      if (!(error instanceof StoreError) || (error.code !== 'conflict' && error.code !== 'absent')) throw error;
    }
  }
  return undefined;
}
