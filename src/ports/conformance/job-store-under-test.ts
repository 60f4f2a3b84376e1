import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { JobProgress, JobRecord, NewJob } from '../../model/job/index.ts';
import { listAllPages } from '../cursor.ts';
import type { JobQuery, JobStore } from '../job-store.ts';
import { eventually } from './eventually.ts';
import { EPOCH, sampleJob, sampleProgress } from './sample-job.ts';

export interface JobStoreUnderTest {
  /** Empty. */
  store: JobStore;
  close(): void | Promise<void>;
}

export type StartJobs = (t: TestContext) => Promise<JobStore>;

export const EVENT = new TextEncoder().encode('{"Key":"meadow/in/a.txt"}');

export async function accepted(store: JobStore, job: NewJob, progress: JobProgress = sampleProgress()) {
  const { outcome, record } = await store.accept(job, progress, EVENT);
  assert.equal(outcome, 'created');
  assert.ok(record);
  return record;
}

/** Accepts jobs one after the other, with acceptance times one second apart. */
export async function acceptedInTurn(store: JobStore, ids: readonly string[]): Promise<JobRecord[]> {
  const records: JobRecord[] = [];
  for (const [n, id] of ids.entries()) {
    records.push(await accepted(store, sampleJob(id, { acceptedAt: EPOCH + n * 1_000 })));
  }
  return records;
}

export async function listed(store: JobStore, query: Partial<JobQuery> = {}): Promise<string[]> {
  const pages = await listAllPages((cursor) =>
    store.list({ service: 'cow', limit: 2, ...query, ...(cursor && { cursor }) }),
  );
  return pages.flat().map(({ id }) => id);
}

/** Lists may lag behind. */
export async function assertListed(store: JobStore, ids: readonly string[], query?: Partial<JobQuery>): Promise<void> {
  await eventually(async () => assert.deepEqual(await listed(store, query), ids));
}

export async function unfinished(store: JobStore): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of store.unfinished()) ids.push(id);
  return ids;
}
