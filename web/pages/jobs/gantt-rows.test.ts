import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobSummary } from '../../api/live.ts';
import { toGantt } from './gantt-rows.ts';

const at = (seconds: number) => new Date(seconds * 1_000).toISOString();
const job = (id: string, place: string, from: number, to?: number, state = 'succeeded') =>
  ({
    id,
    place,
    state,
    started_at: at(from),
    ...(to !== undefined && { finished_at: at(to) }),
  }) as unknown as JobSummary;

test('gantt: bars of a cluster that overlap are in different rows, others share one', () => {
  const [a, b] = toGantt(
    [job('1', 'a', 10, 20), job('2', 'a', 15, 30, 'failed'), job('3', 'a', 20, 40), job('4', 'b', 12)],
    0,
    50_000,
  );
  assert.deepEqual(
    a?.rows.map((row) => row.map((bar) => bar.job.id)),
    [['1', '3'], ['2']],
  );
  assert.deepEqual([a?.jobs, a?.failed, a?.most, a?.hidden], [3, 1, 2, 0]);
  assert.deepEqual(
    b?.rows[0]?.map(({ from, to }) => [from, to]),
    [[12_000, 50_000]],
  );
});

test('gantt: jobs that ended before the range or never started are left out, longer ones are cut', () => {
  const waiting = { id: 'w', place: 'a', state: 'queued' } as unknown as JobSummary;
  const [a] = toGantt([job('old', 'a', 1, 5), waiting, job('long', 'a', 1, 20)], 10_000, 50_000);
  assert.deepEqual(
    a?.rows.map((row) => row.map(({ job: { id }, from }) => [id, from])),
    [[['long', 10_000]]],
  );
});

test('gantt: a cluster with very many jobs at once says how many are not drawn', () => {
  const [a] = toGantt(
    Array.from({ length: 30 }, (_, index) => job(String(index), 'a', 1, 20)),
    0,
    50_000,
  );
  assert.deepEqual([a?.rows.length, a?.hidden, a?.most], [24, 6, 30]);
});
