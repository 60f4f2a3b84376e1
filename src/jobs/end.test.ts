import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobRecord } from '../cluster/index.ts';
import { removeJobsOf } from './end.ts';
import type { Jobs } from './jobs.ts';

test('the jobs of a service that is gone are removed some at a time', async () => {
  const records = Array.from({ length: 500 }, (_, n) => ({ attempts: [{ name: `try-${n}` }] }) as unknown as JobRecord);
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
  await removeJobsOf('uid', jobs as unknown as Pick<Jobs, 'store' | 'runner' | 'secrets'>);
  assert.equal(forgotten.size, 500);
  assert.ok(most <= 16, `${most} at once`);
});
