import { useInfiniteQuery } from '@tanstack/react-query';
import { useEffect, useMemo } from 'react';
import { call } from '../../api/client.ts';
import { type JobSummary, jobKey, useLive } from '../../api/live.ts';
import { useServices } from '../../api/queries.ts';
import { JobLink } from '../../components/job-link.tsx';
import { Link } from '../../components/link.tsx';
import { Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { type TableColumn, VirtualTable } from '../../components/virtual-table.tsx';
import { useNow } from '../../lib/clock.ts';
import { formatAge, formatDate, formatDuration } from '../../lib/format.ts';
import { setQuery, toPath, useLocation } from '../../lib/router.ts';
import { useSession } from '../../session/session.ts';
import { TEXTS } from '../../texts.ts';
import { Gantt } from './gantt.tsx';
import { JobPage } from './job.tsx';
import { type ListedJobs, mergeRows } from './job-rows.ts';

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
  const { query } = useLocation();
  if (service !== undefined && id !== undefined) return <JobPage service={service} id={id} />;
  const isChart = query.get('view') === 'chart';
  return (
    <>
      <h1>{T.title}</h1>
      <p className="tabs">
        <Link to={toPath(['jobs'], keep(query, {}))} className="button" current={!isChart}>
          {T.asTable}
        </Link>
        <Link to={toPath(['jobs'], keep(query, { view: 'chart' }))} className="button" current={isChart}>
          {T.asChart}
        </Link>
      </p>
      {isChart ? <Gantt service={query.get('service') ?? ''} /> : <JobList />}
    </>
  );
}

/** The filters stay when the view changes. */
const keep = (query: URLSearchParams, more: Record<string, string>) => ({
  service: query.get('service') ?? '',
  state: query.get('state') ?? '',
  user: query.get('user') ?? '',
  ...more,
});

function JobList() {
  const { query } = useLocation();
  const [service, state, user] = ['service', 'state', 'user'].map((name) => query.get(name) ?? '') as [
    string,
    string,
    string,
  ];
  const services = useServices();
  const session = useSession();
  const live = useLive();
  const { listed, problem, isLoading, loadMore } = useListedJobs(service, state, user, live.resyncs);
  // Events do not say whose job it is in the words of the filter, so with it the list is only what the manager says.
  const rows = useMemo(
    () => (user === '' ? mergeRows(listed, live, { service, state }) : listed.jobs),
    [listed, live, service, state, user],
  );
  const now = useNow(5_000);
  const current = (job: JobSummary) => live.jobs.get(jobKey(job)) ?? job;
  return (
    <>
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
        {session.kind === 'admin' && (
          <label>
            {T.user}
            <input type="search" value={user} onChange={(event) => setQuery('user', event.target.value)} />
          </label>
        )}
        <span className="quiet" role="status">
          {listed.isComplete ? T.count(rows.length) : T.countSoFar(rows.length)}
        </span>
      </form>
      {problem && <Problem error={problem} />}
      {rows.length === 0 ? (
        <p className="quiet">{isLoading ? TEXTS.loading : T.none}</p>
      ) : (
        <VirtualTable rows={rows} columns={columns(now, current)} keyOf={jobKey} label={T.title} onEnd={loadMore} />
      )}
    </>
  );
}

const columns = (now: number, current: (job: JobSummary) => JobSummary): readonly TableColumn<JobSummary>[] =>
  COLUMNS.map(({ cell, ...column }) => ({ ...column, cell: (job) => cell(current(job), now) }));

interface JobColumn extends Omit<TableColumn<JobSummary>, 'cell'> {
  readonly cell: (job: JobSummary, now: number) => ReturnType<TableColumn<JobSummary>['cell']>;
}

const COLUMNS: readonly JobColumn[] = [
  { title: T.state, cell: ({ state, cancelling }) => <StateBadge state={cancelling ? T.cancelling : state} /> },
  { title: T.id, cell: (job) => <JobLink job={job} /> },
  { title: T.where, cell: ({ place }) => place ?? '' },
  {
    title: T.accepted,
    cell: ({ accepted_at }, now) => (
      <time title={formatDate(accepted_at)}>{formatAge(now - Date.parse(accepted_at))}</time>
    ),
  },
  { title: T.took, cell: (job, now) => tookText(job, now) },
  { title: T.message, cell: ({ message }) => message, className: 'wide' },
];

function tookText({ started_at, finished_at }: JobSummary, now: number): string {
  if (started_at === undefined) return '';
  return formatDuration((finished_at === undefined ? now : Date.parse(finished_at)) - Date.parse(started_at));
}

/** Fewer: more requests while scrolling. More: each takes longer. */
const PAGE_SIZE = 500;

/** Pages of jobs, loaded as the table is scrolled. Events keep them current, so they are loaded again only if events were missed. */
function useListedJobs(service: string, state: string, user: string, resyncs: number) {
  const query = useInfiniteQuery({
    queryKey: ['jobs', 'list', service, state, user],
    initialPageParam: '',
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    refetchOnWindowFocus: false,
    queryFn: async ({ pageParam, signal }) => {
      const filter = { service, state, user, page: pageParam };
      const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ''));
      return (await call('GET /system/jobs', { query: { ...given, limit: String(PAGE_SIZE) }, signal })).data;
    },
    getNextPageParam: ({ next_page }) => next_page,
  });
  const { refetch } = query;
  useEffect(() => {
    if (resyncs > 0) void refetch();
  }, [resyncs, refetch]);
  const listed = useMemo((): ListedJobs => {
    const jobs = (query.data?.pages ?? []).flatMap(({ jobs: page }): readonly JobSummary[] => page);
    return { jobs, keys: new Set(jobs.map(jobKey)), isComplete: !query.hasNextPage };
  }, [query.data, query.hasNextPage]);
  const loadMore = query.hasNextPage && !query.isFetching ? () => void query.fetchNextPage() : undefined;
  return { listed, loadMore, isLoading: query.isLoading, problem: query.error };
}
