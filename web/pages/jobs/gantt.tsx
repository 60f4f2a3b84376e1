import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { call } from '../../api/client.ts';
import { type JobSummary, jobKey, useLive } from '../../api/live.ts';
import { Loaded } from '../../components/loaded.tsx';
import { toneOf } from '../../components/state-badge.tsx';
import { serverNow, useNow } from '../../lib/clock.ts';
import { formatDuration, formatTime } from '../../lib/format.ts';
import { navigate, toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { type GanttCluster, toGantt } from './gantt-rows.ts';

const T = TEXTS.jobs;
const HOUR_MS = 3_600_000;
/** Requests for the jobs of the last hour. More: a busy cluster is drawn completely, and slowly. */
const MAX_PAGES = 5;

/** What ran where during the last hour: a bar for each job, a block for each cluster. */
export function Gantt({ service }: { service: string }) {
  const loaded = useQuery({
    queryKey: ['jobs', 'hour', service],
    queryFn: ({ signal }) => loadHour(service, signal),
    refetchInterval: 60_000,
  });
  return <Loaded query={loaded}>{(jobs) => <Chart jobs={jobs} service={service} />}</Loaded>;
}

function Chart({ jobs, service }: { jobs: readonly JobSummary[]; service: string }) {
  const live = useLive();
  const now = useNow(1_000);
  const clusters = useMemo(() => {
    const all = new Map(jobs.map((job) => [jobKey(job), job]));
    for (const [key, job] of live.jobs) if (service === '' || job.service === service) all.set(key, job);
    return toGantt(all.values(), now - HOUR_MS, now);
  }, [jobs, live.jobs, service, now]);
  if (clusters.length === 0) return <p className="quiet">{T.noneInHour}</p>;
  return (
    <>
      {clusters.map((cluster) => (
        <ClusterChart key={cluster.place} cluster={cluster} now={now} />
      ))}
      <div className="table-scroll">
        <table>
          <caption>{T.chartTable}</caption>
          <thead>
            <tr>
              {[T.where, T.title, T.failed, T.most].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {clusters.map(({ place, jobs: count, failed, most }) => (
              <tr key={place}>
                <th scope="row">{place}</th>
                <td>{count}</td>
                <td>{failed}</td>
                <td>{most}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const ROW = 14;
const MARKS = [60, 45, 30, 15, 0];

function ClusterChart({ cluster: { place, rows, jobs, hidden }, now }: { cluster: GanttCluster; now: number }) {
  const height = rows.length * ROW;
  const x = (time: number) => ((time - (now - HOUR_MS)) / HOUR_MS) * 100;
  return (
    <section className="gantt" aria-label={place}>
      <h2>{place}</h2>
      <svg
        role="img"
        aria-label={T.chart(place, jobs)}
        viewBox={`0 0 100 ${height}`}
        preserveAspectRatio="none"
        height={height}
      >
        {rows.map((row, index) =>
          row.map(({ job, from, to }) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the table of jobs has the same links for the keyboard
            <rect
              key={jobKey(job)}
              className={`gantt-run gantt-run-${toneOf(job.state)}`}
              x={x(from)}
              y={index * ROW + 1}
              width={Math.max(0.15, x(to) - x(from))}
              height={ROW - 2}
              onClick={() => navigate(toPath(['jobs', job.service, job.id]))}
            >
              <title>{`${job.service} ${job.id.slice(-8)}: ${job.state}, ${formatTime(new Date(from).toISOString())}, ${formatDuration(to - from)}`}</title>
            </rect>
          )),
        )}
      </svg>
      <p className="gantt-axis quiet" aria-hidden="true">
        {MARKS.map((minutes) => (
          <span key={minutes}>{minutes === 0 ? T.now : T.minutesAgo(minutes)}</span>
        ))}
      </p>
      {hidden > 0 && <p className="quiet">{T.notDrawn(hidden)}</p>}
    </section>
  );
}

interface JobsPageAnswer {
  readonly data: { readonly jobs: readonly JobSummary[]; readonly next_page?: string };
}

async function loadHour(service: string, signal: AbortSignal): Promise<JobSummary[]> {
  const oldest = new Date(serverNow() - HOUR_MS).toISOString();
  const found: JobSummary[] = [];
  let page: string | undefined = '';
  for (let pages = 0; page !== undefined && pages < MAX_PAGES; pages++) {
    const query: Record<string, string> = {
      limit: '1000',
      ...(service !== '' && { service }),
      ...(page !== '' && { page }),
    };
    const { data }: JobsPageAnswer = await call('GET /system/jobs', { query, signal });
    found.push(...data.jobs);
    page = (data.jobs.at(-1)?.accepted_at ?? '') < oldest ? undefined : data.next_page;
  }
  return found;
}
