import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRecord } from '../../model/job/index.ts';
import type { Jobs } from '../jobs.ts';
import { removeServiceJobs } from './end.ts';

const recordsOf = (count: number, state: JobRecord['state']) =>
  Array.from({ length: count }, (_, n) => ({ state, attempts: [{ name: `${state}-${n}` }] }) as unknown as JobRecord);

/** How many of these were forgotten, and how many at once at most. */
async function removed(records: readonly JobRecord[]) {
  const forgotten = new Set<string>();
  let [now, most] = [0, 0];
  const runner = {
    stop: async () => {
      most = Math.max(most, ++now);
      await new Promise(setImmediate);
    },
    forget: async (name: string) => {
      now--;
      forgotten.add(name);
    },
  };
  const jobs = { store: { removeService: async () => records }, runner, secrets: {} };
  await removeServiceJobs('uid', jobs as unknown as Pick<Jobs, 'store' | 'runner' | 'secrets'>);
  return { forgotten: forgotten.size, most };
}

test('remove: ended jobs of a removed service are removed with limited concurrency', async () => {
  const { forgotten, most } = await removed(recordsOf(500, 'succeeded'));
  assert.equal(forgotten, 500);
  assert.ok(most <= 16, `${most} at once`);
});

test('remove: running jobs of a removed service are stopped together', async () => {
  assert.deepEqual(await removed(recordsOf(50, 'running')), { forgotten: 50, most: 50 });
});
