import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { call } from '../../api/client.ts';
import { isEnded, type Job, jobKey, useLive } from '../../api/live.ts';
import { queries } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { useNow } from '../../lib/clock.ts';
import { formatDate, formatDuration, formatTime } from '../../lib/format.ts';
import { toPath } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { JobLog } from './job-log.tsx';

const T = TEXTS.jobs;

export function JobPage({ service, id }: { service: string; id: string }) {
  const job = useQuery(queries.job(service, id));
  const live = useLive().jobs.get(jobKey({ service, id }));
  const { refetch } = job;
  // An event has only the summary: the timeline and the decisions are read again.
  useEffect(() => {
    if (live) void refetch();
  }, [live, refetch]);
  return <Loaded query={job}>{(data) => <JobDetails job={data} />}</Loaded>;
}

function JobDetails({ job }: { job: Job }) {
  const { service, id, state, message, object, attempts } = job;
  return (
    <>
      <p className="breadcrumb">
        <Link to={toPath(['jobs'], { service })}>{service}</Link> /
      </p>
      <h1 className="mono">{id}</h1>
      <p>
        <StateBadge state={job.cancelling ? T.cancelling : state} /> {message}
      </p>
      {object && (
        <p>
          {T.input}: <Link to={toPath(['data', object.bucket])}>{object.bucket}</Link>/{object.key}
        </p>
      )}
      <CancelButton job={job} />
      <section>
        <h2>{T.timeline}</h2>
        <Timeline job={job} />
      </section>
      {attempts.length > 1 && (
        <section>
          <h2>{T.attempts}</h2>
          <ul>
            {attempts.map(({ name, place, exit_code }) => (
              <li key={name}>
                <span className="mono">{name}</span> {place} {exit_code !== undefined && `exit ${exit_code}`}
              </li>
            ))}
          </ul>
        </section>
      )}
      <section>
        <h2>{T.decisions}</h2>
        <Decisions decisions={job.decisions} />
      </section>
      <section>
        <h2>{T.logs}</h2>
        <JobLog service={service} id={id} isEnded={isEnded(job)} />
      </section>
    </>
  );
}

function CancelButton({ job }: { job: Job }) {
  const client = useQueryClient();
  const { service, id } = job;
  const cancel = useMutation({
    mutationFn: () => call('DELETE /system/jobs/{name}/{id}', { path: { name: service, id } }),
    onSettled: () => client.invalidateQueries({ queryKey: ['jobs', service, id] }),
  });
  if (isEnded(job)) return null;
  return (
    <p>
      <button
        type="button"
        className="danger"
        onClick={() => cancel.mutate()}
        disabled={cancel.isPending || job.cancelling === true}
      >
        {T.cancel}
      </button>
      {cancel.isError && <Problem error={cancel.error} />}
    </p>
  );
}

/** Each state with its duration, as bars on one time axis. */
function Timeline({ job: { timeline, finished_at } }: { job: Job }) {
  const now = useNow(finished_at === undefined ? 500 : 60_000);
  const first = Date.parse(timeline[0]?.at ?? '');
  const end = finished_at === undefined ? now : Date.parse(finished_at);
  const span = Math.max(1, end - first);
  return (
    <ol className="timeline">
      {timeline.map(({ state, at, reason, message, place }, index) => {
        const began = Date.parse(at);
        const until = Date.parse(timeline[index + 1]?.at ?? '') || end;
        return (
          <li key={`${at} ${state} ${reason}`}>
            <time title={formatDate(at)}>{formatTime(at)}</time>
            <StateBadge state={state} />
            <span className="timeline-track">
              <span
                className="timeline-bar"
                style={{
                  marginInlineStart: `${((began - first) / span) * 100}%`,
                  width: `${Math.max(0.5, ((until - began) / span) * 100)}%`,
                }}
              />
            </span>
            <span className="timeline-took">{until > began ? formatDuration(until - began) : ''}</span>
            <span className="timeline-text">
              {message} <span className="quiet">{place}</span>
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function Decisions({ decisions }: { decisions: Job['decisions'] }) {
  if (decisions.length === 0) return <p className="quiet">{T.noDecisions}</p>;
  return decisions.toReversed().map(({ at, policy, chosen, candidates }) => (
    <div key={at} className="decision">
      <h3>
        {formatTime(at)} {T.decision(policy, chosen)}
      </h3>
      <div className="table-scroll">
        <table>
          <thead>
            <tr>
              {[TEXTS.services.member, T.score, T.age, T.refusal].map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {candidates.map(({ member, score, age, refusal }) => (
              <tr key={member} className={member === chosen ? 'chosen' : undefined}>
                <th scope="row">{member}</th>
                <td>{score === undefined ? '' : Math.round(score * 1000) / 1000}</td>
                <td>{age === undefined ? '' : T.ageOf(age)}</td>
                <td>{refusal}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  ));
}
