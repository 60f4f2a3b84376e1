import type { JobSummary } from '../../api/live.ts';

/** A job as a bar: when its last attempt ran, in milliseconds. */
export interface GanttBar {
  readonly job: JobSummary;
  readonly from: number;
  readonly to: number;
}

export interface GanttCluster {
  readonly place: string;
  /** Each has bars that do not overlap. */
  readonly rows: readonly (readonly GanttBar[])[];
  readonly jobs: number;
  readonly failed: number;
  /** Jobs at the same time, at most. */
  readonly most: number;
  /** Bars for which there is no row. */
  readonly hidden: number;
}

/** More rows for one cluster than a screen has are not read by anybody. */
const MAX_ROWS = 24;

/** The jobs that ran in a range, by cluster; within a cluster each bar takes the first row that is free. */
export function toGantt(jobs: Iterable<JobSummary>, from: number, now: number): GanttCluster[] {
  const byPlace = new Map<string, GanttBar[]>();
  for (const job of jobs) {
    if (job.started_at === undefined || job.place === undefined) continue;
    const bar = {
      job,
      from: Math.max(Date.parse(job.started_at), from),
      to: job.finished_at === undefined ? now : Date.parse(job.finished_at),
    };
    if (bar.to < from || bar.from > now) continue;
    byPlace.set(job.place, [...(byPlace.get(job.place) ?? []), bar]);
  }
  return [...byPlace].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([place, bars]) => toCluster(place, bars));
}

function toCluster(place: string, bars: readonly GanttBar[]): GanttCluster {
  const rows: GanttBar[][] = [];
  for (const bar of bars.toSorted((a, b) => a.from - b.from)) {
    const free = rows.find((row) => (row.at(-1)?.to ?? 0) <= bar.from);
    if (free) free.push(bar);
    else rows.push([bar]);
  }
  const failed = bars.filter(({ job }) => job.state === 'failed').length;
  const hidden = rows.slice(MAX_ROWS).reduce((sum, row) => sum + row.length, 0);
  return { place, rows: rows.slice(0, MAX_ROWS), jobs: bars.length, failed, most: rows.length, hidden };
}
