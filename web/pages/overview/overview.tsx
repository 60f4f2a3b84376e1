import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { jobKey, type Live, useLive } from '../../api/live.ts';
import { queries, type Service, useServices } from '../../api/queries.ts';
import { JobLink } from '../../components/job-link.tsx';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { useNow } from '../../lib/clock.ts';
import { formatAge, formatBytes, formatCores } from '../../lib/format.ts';
import { setQuery, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { type ClusterNode, type Resource, toGraph } from './clusters.ts';
import { Graph } from './graph.tsx';
import { MANY } from './places.ts';

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
  const known = useQuery(queries.clusters());
  const config = useQuery(queries.pageConfig());
  const self = config.data?.cluster ?? '';
  const graph = useMemo(() => toGraph(services, live, known.data, self), [services, live, known.data, self]);
  return (
    <>
      {services.length === 0 && <StartingPoints />}
      {known.isError && <Problem error={known.error} />}
      {known.data?.conditions.map(({ service, type, reason }) => (
        <p key={`${service} ${type}`} className="problem" role="alert">
          <Link to={toPath(['services', service])}>{service}</Link>: {type}: {reason}
        </p>
      ))}
      <Graph graph={graph} />
      <ClusterTable clusters={graph.clusters} />
      <LatestJobs live={live} />
    </>
  );
}

const COLUMNS = [T.cluster, T.state, T.replicas, T.cpu, T.memory, T.gpu, T.roundTrip, T.running, T.queued];

function ClusterTable({ clusters }: { clusters: readonly ClusterNode[] }) {
  const onlyProblems = useLocation().query.get('problems') === 'only';
  const shown = onlyProblems ? clusters.filter(({ problems }) => problems.length > 0) : clusters;
  return (
    <section aria-label={T.table}>
      {clusters.length > MANY && (
        <label className="check">
          <input
            type="checkbox"
            checked={onlyProblems}
            onChange={(event) => setQuery('problems', event.target.checked ? 'only' : '')}
          />
          {T.onlyProblems}
        </label>
      )}
      <div className="table-scroll">
        <table>
          <caption>{T.table}</caption>
          <thead>
            <tr>
              {COLUMNS.map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((cluster) => (
              <ClusterRow key={cluster.id} cluster={cluster} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function ClusterRow({ cluster }: { cluster: ClusterNode }) {
  const { id, isSelf, states, services, known, running, queued } = cluster;
  return (
    <tr>
      <th scope="row">
        {isSelf ? <Link to={toPath(['cluster'])}>{id}</Link> : id}{' '}
        {isSelf && <span className="quiet">({TEXTS.here})</span>}
      </th>
      <td>
        {isSelf ? <StateBadge state="ready" /> : states.length === 0 ? T.unknown : null}
        {states.map(({ service, state, reason }) => (
          <div key={service}>
            <StateBadge state={state} /> {reason}
          </div>
        ))}
        {known?.problem !== undefined && <div className="trouble">{known.problem}</div>}
      </td>
      <td>
        {services.map((name) => (
          <Link key={name} to={toPath(['services', name])} className="chip">
            {name}
          </Link>
        ))}
      </td>
      <td>{share(known?.cpu, formatCores)}</td>
      <td>{share(known?.memory, formatBytes)}</td>
      <td>{share(known?.gpu, String)}</td>
      <td>{known?.round_trip_ms === undefined ? '' : T.milliseconds(known.round_trip_ms)}</td>
      <td>{running}</td>
      <td>{queued}</td>
    </tr>
  );
}

function share(resource: Resource | undefined, format: (amount: number) => string): string {
  if (!resource) return T.unknown;
  const { total, free, promised } = resource;
  if (total === 0) return TEXTS.none;
  const text = T.free(format(free), format(total));
  return promised > 0 ? `${text}, ${T.promisedAmount(format(promised))}` : text;
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
