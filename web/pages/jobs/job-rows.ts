import { type JobSummary, jobKey, type Live } from '../../api/live.ts';

export interface JobFilter {
  readonly service: string;
  readonly state: string;
}

/** Jobs as the manager has listed them, newest first. */
export interface ListedJobs {
  readonly jobs: readonly JobSummary[];
  readonly keys: ReadonlySet<string>;
  /** False while older jobs are not loaded yet. */
  readonly isComplete: boolean;
}

export const matches = (job: JobSummary, { service, state }: JobFilter) =>
  (service === '' || job.service === service) && (state === '' || job.state === state);

/**
 * The rows of the table: the listed jobs, and those that only events have named. It looks at the jobs of events, of which there
 * are few, and not at each of up to 100,000 listed ones; what a row shows is looked up when it is drawn.
 */
export function mergeRows(
  listed: ListedJobs,
  { jobs: live }: Pick<Live, 'jobs'>,
  filter: JobFilter,
): readonly JobSummary[] {
  const { jobs, keys, isComplete } = listed;
  const oldest = jobs.at(-1)?.accepted_at ?? '';
  const added: JobSummary[] = [];
  const left = new Set<string>();
  for (const [key, job] of live) {
    if (keys.has(key)) {
      if (!matches(job, filter)) left.add(key);
    } else if (matches(job, filter) && (isComplete || job.accepted_at >= oldest)) added.push(job);
  }
  const kept = left.size === 0 ? jobs : jobs.filter((job) => !left.has(jobKey(job)));
  if (added.length === 0) return kept;
  added.sort(newestFirst);
  const newest = kept[0]?.accepted_at ?? '';
  const isOnTop = added.every(({ accepted_at }) => accepted_at >= newest);
  return isOnTop ? [...added, ...kept] : [...added, ...kept].toSorted(newestFirst);
}

const newestFirst = (a: JobSummary, b: JobSummary) =>
  a.accepted_at === b.accepted_at ? 0 : a.accepted_at < b.accepted_at ? 1 : -1;
