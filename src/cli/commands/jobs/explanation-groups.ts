import { originOf, placeOf, type ToldJob } from './told-job.ts';
import { FINAL } from './view.ts';

/** Jobs that ran at the same place for the same reason, and ended, or have not ended, in the same way. */
export interface Group {
  readonly place: string;
  readonly state: string;
  readonly why: string;
  readonly jobs: number;
}

/** Where jobs ran and why, most of them first. */
export function groupJobs(jobs: readonly ToldJob[]): Group[] {
  const groups = Map.groupBy(
    jobs.map((job) => ({ place: placeOf(job) ?? '-', state: job.state, why: inShort(job) })),
    (each) => JSON.stringify(each),
  );
  return [...groups.values()]
    .flatMap(([first, ...more]) => (first ? [{ ...first, jobs: more.length + 1 }] : []))
    .toSorted((a, b) => b.jobs - a.jobs || (a.place < b.place ? -1 : 1));
}

function inShort(job: ToldJob): string {
  const origin = originOf(job);
  const place = placeOf(job);
  const last = job.decisions.at(-1);
  if (place === undefined) return FINAL.has(job.state) ? `it never began: ${job.message}` : job.message;
  if (!last) return place === origin ? 'there was room' : '';
  if (place === origin) {
    return last.chosen === undefined ? 'nobody else could take it' : `"${last.policy}" chose it`;
  }
  const before = job.decisions.length - 1;
  const refusals = before === 0 ? '' : `, after ${before} ${before === 1 ? 'other' : 'others'}`;
  return `"${last.policy}" chose it${refusals}`;
}
