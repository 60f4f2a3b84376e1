import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import type { JobState } from '../../model/job/index.ts';
import { type JobStore, listAllPages } from '../../ports/index.ts';
import { openLocalCluster } from './index.ts';

const ROUNDS = Number(process.env['OSCAR_TEST_ROUNDS'] ?? 3);
const CHILD = fileURLToPath(new URL('./kill-jobs.child.ts', import.meta.url));

/** The child is killed after at most this many acknowledged jobs. */
const MAX_JOBS = 300;

test('crash: after kill -9 every acknowledged job exists once with its event, and no record is incomplete', {
  timeout: ROUNDS * 20_000,
}, async (t) => {
  const directory = temporaryDirectory(t);
  const acknowledged = new Set<string>();
  for (let round = 0; round < ROUNDS; round++) {
    const killAfter = 1 + Math.floor(Math.random() * MAX_JOBS);
    for (const id of await acceptUntilKilled(directory, `r${round}`, killAfter)) acknowledged.add(id);
    const cluster = openLocalCluster({ directory });
    await assertKept(cluster.jobs, acknowledged);
    await cluster.close();
    assertWhole(directory);
  }
});

async function acceptUntilKilled(directory: string, prefix: string, killAfter: number): Promise<string[]> {
  const ids: string[] = [];
  const child = spawn(process.execPath, [CHILD, directory, prefix], { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const id of createInterface({ input: child.stdout })) {
    if (ids.push(id) === killAfter) child.kill('SIGKILL');
  }
  assert.ok(ids.length >= killAfter, 'the child ended by itself');
  return ids;
}

async function assertKept(jobs: JobStore, acknowledged: ReadonlySet<string>): Promise<void> {
  const pages = await listAllPages((cursor) => jobs.list({ service: 'cow', limit: 100, ...(cursor && { cursor }) }));
  const records = pages.flat();
  const ids = new Set(records.map(({ id }) => id));
  assert.equal(ids.size, records.length, 'a job exists twice');
  assert.deepEqual(
    [...acknowledged].filter((id) => !ids.has(id)),
    [],
    'acknowledged and lost',
  );
  const counts = new Map<JobState, number>();
  for (const record of records) {
    counts.set(record.state, (counts.get(record.state) ?? 0) + 1);
    const event = Buffer.from((await jobs.event(record)) ?? []);
    assert.equal(event.byteLength, record.eventBytes);
    assert.ok(event.toString().startsWith(`${record.id} `), `the event of ${record.id} belongs to another job`);
  }
  assert.deepEqual(new Map(await jobs.counts()), counts);
}

function assertWhole(directory: string): void {
  const database = new DatabaseSync(join(directory, 'manager.db'));
  const rows = (sql: string) => database.prepare(sql).all().flatMap(Object.values);
  assert.deepEqual(rows('PRAGMA integrity_check'), ['ok']);
  assert.deepEqual(rows('PRAGMA foreign_key_check'), []);
  assert.deepEqual(rows('SELECT seq FROM jobs LEFT JOIN job_events USING (seq) WHERE event IS NULL'), []);
  database.close();
}
