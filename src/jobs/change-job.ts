import type { JobKey, JobProgress, JobRecord } from '../model/job/index.ts';
import { type JobStore, StoreError } from '../ports/index.ts';

/**
 * Changes a record by compare-and-swap, and retries with the newer record when another writer was first. `decide` computes
 * the change from the current record; undefined means that there is nothing to change. Resolves to the record that was
 * written; undefined if nothing was written.
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
