import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { call } from '../../api/client.ts';
import { type JobSummary, jobKey, type Live, useLive } from '../../api/live.ts';
import { useServices } from '../../api/queries.ts';
import { JobLink } from '../../components/job-link.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { type TableColumn, VirtualTable } from '../../components/virtual-table.tsx';
import { useNow } from '../../lib/clock.ts';
import { formatAge, formatDate, formatDuration } from '../../lib/format.ts';
import { setQuery, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { JobPage } from './job.tsx';

const T = TEXTS.jobs;
const STATES = [
  'accepted',
  'queued',
  'offering',
  'delegated',
  'running',
  'committing',
  'succeeded',
  'failed',
  'cancelled',
];

export function JobsPage({ path: [service, id] }: { path: readonly string[] }) {
  return service !== undefined && id !== undefined ? <JobPage service={service} id={id} /> : <JobList />;
}

function JobList() {
  const { query } = useLocation();
  const [service, state] = [query.get('service') ?? '', query.get('state') ?? ''];
  const services = useServices();
  const live = useLive();
  const older = useOlderJobs(service, state);
  const rows = useMemo(() => merge(older.jobs, live, service, state), [older.jobs, live, service, state]);
  const now = useNow(5_000);
  return (
    <>
      <h1>{T.title}</h1>
      <form className="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          {T.service}
          <select value={service} onChange={(event) => setQuery('service', event.target.value)}>
            <option value="">{T.allServices}</option>
            {(services.data ?? []).map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          {T.state}
          <select value={state} onChange={(event) => setQuery('state', event.target.value)}>
            <option value="">{T.allStates}</option>
            {STATES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <span className="quiet" role="status">
          {T.count(rows.length)}
        </span>
      </form>
      {rows.length === 0 ? (
        <p className="quiet">{older.isLoading ? TEXTS.loading : T.none}</p>
      ) : (
        <VirtualTable rows={rows} columns={columns(now)} keyOf={jobKey} label={T.title} onEnd={older.loadMore} />
      )}
    </>
  );
}

const columns = (now: number): readonly TableColumn<JobSummary>[] => [
  { title: T.state, cell: ({ state, cancelling }) => <StateBadge state={cancelling ? T.cancelling : state} /> },
  { title: T.id, cell: (job) => <JobLink job={job} /> },
  { title: T.where, cell: ({ place }) => place ?? '' },
  {
    title: T.accepted,
    cell: ({ accepted_at }) => <time title={formatDate(accepted_at)}>{formatAge(now - Date.parse(accepted_at))}</time>,
  },
  { title: T.took, cell: (job) => tookText(job, now) },
  { title: T.message, cell: ({ message }) => message, className: 'wide' },
];

function tookText({ started_at, finished_at }: JobSummary, now: number): string {
  if (started_at === undefined) return '';
  return formatDuration((finished_at === undefined ? now : Date.parse(finished_at)) - Date.parse(started_at));
}

/** Pages of older jobs of one service. Without a service, the jobs that the page knows are shown. */
function useOlderJobs(service: string, state: string) {
  const query = useInfiniteQuery({
    queryKey: ['jobs', service, 'list', state],
    enabled: service !== '',
    initialPageParam: '',
    queryFn: async ({ pageParam, signal }) =>
      (
        await call('GET /system/jobs/{name}', {
          path: { name: service },
          query: { ...(state !== '' && { state }), ...(pageParam !== '' && { page: pageParam }) },
          signal,
        })
      ).data,
    getNextPageParam: ({ next_page }) => next_page,
  });
  const jobs = useMemo(
    () => (query.data?.pages ?? []).flatMap(({ jobs: page }): readonly JobSummary[] => page),
    [query.data],
  );
  const loadMore = query.hasNextPage && !query.isFetching ? () => void query.fetchNextPage() : undefined;
  return { jobs, loadMore, isLoading: query.isLoading };
}

/** Newest first; what events say is newer than what a list said. */
function merge(older: readonly JobSummary[], live: Live, service: string, state: string): JobSummary[] {
  const all = new Map(older.map((job) => [jobKey(job), job]));
  for (const [key, job] of live.jobs) if (service === '' || job.service === service) all.set(key, job);
  return [...all.values()]
    .filter((job) => state === '' || job.state === state)
    .toSorted((a, b) => (a.accepted_at < b.accepted_at ? 1 : -1));
}
