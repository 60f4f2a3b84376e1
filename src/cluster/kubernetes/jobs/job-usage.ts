import type { JobRecord } from '../../job-record.ts';
import type { UsageRow } from '../../job-store.ts';
import { positionOf } from './job-index.ts';
import { endedAt } from './job-object.ts';
import type { Ordered } from './ordered.ts';

/** Enough that the sum is what takes the time, few enough that everybody else waits a millisecond for it. */
const SLICE = 1_000;

interface Range {
  readonly from: number;
  readonly to: number;
}

/** What jobs have used that were accepted in the range, slice by slice. Those that still run have run until now. */
export async function usageOf(jobs: Ordered<JobRecord>, range: Range, now: number): Promise<UsageRow[]> {
  const sums = new Map<string, UsageRow>();
  let above = { at: range.from, text: '' };
  for (;;) {
    const slice = jobs.above(above, SLICE);
    for (const record of slice) {
      if (record.acceptedAt >= range.to) return [...sums.values()];
      addTo(sums, record, range, now);
    }
    const last = slice.at(-1);
    if (!last || slice.length < SLICE) return [...sums.values()];
    above = positionOf(last);
    await new Promise(setImmediate);
  }
}

function addTo(sums: Map<string, UsageRow>, record: JobRecord, range: Range, now: number): void {
  const { service, invoker, trigger, demand } = record;
  const key = JSON.stringify([service, invoker, trigger]);
  const sum = sums.get(key) ?? { service, invoker, trigger, jobs: 0, cpuSeconds: 0, gpuSeconds: 0 };
  const seconds = millisecondsWithin(record, range, now) / 1_000;
  sums.set(key, {
    ...sum,
    jobs: sum.jobs + 1,
    cpuSeconds: sum.cpuSeconds + (demand.cpu / 1_000) * seconds,
    gpuSeconds: sum.gpuSeconds + demand.gpu * seconds,
  });
}

function millisecondsWithin(record: JobRecord, { from, to }: Range, now: number): number {
  const { startedAt, finishedAt = endedAt(record) ?? now } = record;
  return startedAt === undefined ? 0 : Math.max(0, Math.min(finishedAt, to) - Math.max(startedAt, from));
}
