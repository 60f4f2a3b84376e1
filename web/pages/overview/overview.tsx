import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { jobKey, type Live, useLive } from '../../api/live.ts';
import { queries, type Service, useServices } from '../../api/queries.ts';
import { JobLink } from '../../components/job-link.tsx';
import { Link } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { useNow } from '../../lib/clock.ts';
import { formatAge, formatBytes, formatCores } from '../../lib/format.ts';
import { toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { type ClusterNode, toGraph } from './clusters.ts';
import { Graph } from './graph.tsx';

const T = TEXTS.overview;
const RECENT = 12;

export function Overview() {
  const services = useServices();
  return (
    <>
      <h1>{T.title}</h1>
      <Loaded query={services}>{(list) => <Federation services={list} />}</Loaded>
    </>
  );
}

function Federation({ services }: { services: readonly Service[] }) {
  const live = useLive();
  const status = useQuery(queries.status());
  const config = useQuery(queries.pageConfig());
  const self = config.data?.cluster ?? '';
  const graph = useMemo(() => toGraph(services, live, status.data, self), [services, live, status.data, self]);
  return (
    <>
      {services.length === 0 && <StartingPoints />}
      <Graph graph={graph} />
      <ClusterTable clusters={graph.clusters} />
      <LatestJobs live={live} />
    </>
  );
}

function ClusterTable({ clusters }: { clusters: readonly ClusterNode[] }) {
  return (
    <section aria-label={T.table}>
      <div className="table-scroll">
        <table>
          <caption>{T.table}</caption>
          <thead>
            <tr>
              {[T.cluster, T.state, T.replicas, T.cpu, T.memory, T.running, T.queued].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {clusters.map(({ id, isSelf, states, services, capacity, running, queued }) => (
              <tr key={id}>
                <th scope="row">
                  {id} {isSelf && <span className="quiet">({TEXTS.here})</span>}
                </th>
                <td>
                  {isSelf ? <StateBadge state="ready" /> : states.length === 0 ? T.unknown : null}
                  {states.map(({ service, state, reason }) => (
                    <div key={service}>
                      <StateBadge state={state} /> {reason}
                    </div>
                  ))}
                </td>
                <td>
                  {services.map((name) => (
                    <Link key={name} to={toPath(['services', name])} className="chip">
                      {name}
                    </Link>
                  ))}
                </td>
                <td>
                  {capacity
                    ? T.free(formatCores(capacity.cpu.total - capacity.cpu.used), formatCores(capacity.cpu.total))
                    : T.unknown}
                </td>
                <td>
                  {capacity
                    ? T.free(
                        formatBytes(capacity.memory.total - capacity.memory.used),
                        formatBytes(capacity.memory.total),
                      )
                    : T.unknown}
                </td>
                <td>{running}</td>
                <td>{isSelf ? queued : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function LatestJobs({ live }: { live: Live }) {
  const now = useNow();
  const latest = useMemo(() => [...live.jobs.values()].slice(-RECENT).toReversed(), [live.jobs]);
  if (latest.length === 0) return null;
  return (
    <section>
      <h2>{T.recent}</h2>
      <ul className="job-list" aria-live="off">
        {latest.map((job) => (
          <li key={jobKey(job)}>
            <StateBadge state={job.state} />
            <JobLink job={job} />
            <span className="quiet">{job.message}</span>
            <span className="quiet age">
              {formatAge(now - Date.parse(job.finished_at ?? job.started_at ?? job.accepted_at))}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function StartingPoints() {
  return (
    <section>
      <h2>{T.empty}</h2>
      <div className="cards">
        {T.start.map(({ title, text, code }) => (
          <article key={title} className="panel">
            <h3>{title}</h3>
            <p>{text}</p>
            {code === '' ? (
              <Link to={toPath(['services'], { new: 'true' })}>{TEXTS.services.create}</Link>
            ) : (
              <code>{code}</code>
            )}
          </article>
        ))}
      </div>
    </section>
  );
}
