import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { call, request } from '../../api/client.ts';
import { isEnded, type Job, jobKey, useLive } from '../../api/live.ts';
import { queries } from '../../api/queries.ts';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { serverNow, useNow } from '../../lib/clock.ts';
import { formatDate, formatDuration, formatTime } from '../../lib/format.ts';
import { toPath } from '../../lib/router.ts';
import { useSession } from '../../session/session.ts';
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
  const { service, id, state, message, attempts } = job;
  return (
    <>
      <p className="breadcrumb">
        <Link to={toPath(['jobs'], { service })}>{service}</Link> /
      </p>
      <h1 className="mono">{id}</h1>
      <p>
        <StateBadge state={job.cancelling ? T.cancelling : state} /> {message}
      </p>
      <p className="quiet">{inWords(job)}</p>
      <Files job={job} />
      <p className="actions">
        <CancelButton job={job} />
        <AgainButton job={job} />
      </p>
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
    <>
      <button
        type="button"
        className="danger"
        onClick={() => cancel.mutate()}
        disabled={cancel.isPending || job.cancelling === true}
      >
        {T.cancel}
      </button>
      {cancel.isError && <Problem error={cancel.error} />}
    </>
  );
}

/** Queues a job with the same file. The input of other jobs is not kept in a readable form. */
function AgainButton({ job }: { job: Job }) {
  const { service, object } = job;
  const session = useSession();
  const again = useMutation({
    mutationFn: async ({ bucket, key }: NonNullable<Job['object']>) => {
      const body = JSON.stringify(toUploadEvent(bucket, key));
      const response = await request(`/job/${encodeURIComponent(service)}`, { method: 'POST', body });
      return response.headers.get('x-oscar-job-id') ?? '';
    },
  });
  // The administrator may not call services.
  if (!object || !isEnded(job) || session.kind === 'admin') return null;
  return (
    <>
      <button type="button" onClick={() => again.mutate(object)} disabled={again.isPending}>
        {T.again}
      </button>
      {again.data !== undefined && (
        <span role="status">
          {T.againQueued} <Link to={toPath(['jobs', service, again.data])}>{again.data.slice(-8)}</Link>
        </span>
      )}
      {again.isError && <Problem error={again.error} />}
    </>
  );
}

/** The event of an object store that starts a job for this file. */
const toUploadEvent = (bucket: string, key: string) => ({
  EventName: 's3:ObjectCreated:Put',
  Key: `${bucket}/${key}`,
  Records: [
    {
      eventSource: 'minio:s3',
      eventTime: new Date(serverNow()).toISOString(),
      eventName: 's3:ObjectCreated:Put',
      s3: { bucket: { name: bucket }, object: { key: encodeURIComponent(key) } },
    },
  ],
});

/** How long it waited, where it ran and for how long. */
function inWords({ accepted_at, started_at, finished_at, place }: Job): string {
  if (started_at === undefined) return '';
  const started = Date.parse(started_at);
  const waited = T.waited(formatDuration(started - Date.parse(accepted_at)));
  if (place === undefined) return waited;
  const ran =
    finished_at === undefined ? T.runsOn(place) : T.ran(place, formatDuration(Date.parse(finished_at) - started));
  return `${waited} ${ran}`;
}

/** Where its input is, and where its service writes results. */
function Files({ job: { service, object } }: { job: Job }) {
  const { data } = useQuery(queries.service(service));
  const outputs = (data?.service.output ?? []).map(({ path }) => path).filter((path) => path !== '');
  return (
    <>
      {object && (
        <p>
          {T.input}:{' '}
          <FolderLink
            path={object.key.replace(/[^/]*$/, '')}
            bucket={object.bucket}
            text={`${object.bucket}/${object.key}`}
          />
        </p>
      )}
      {outputs.length > 0 && (
        <p>
          {T.outputs}:{' '}
          {outputs.map((path) => {
            const [bucket = '', ...folders] = path.split('/');
            return <FolderLink key={path} bucket={bucket} path={`${folders.join('/')}/`} text={T.openFolder(path)} />;
          })}
        </p>
      )}
    </>
  );
}

const FolderLink = ({ bucket, path, text }: { bucket: string; path: string; text: string }) => (
  <Link to={toPath(['data', bucket], { prefix: path === '/' ? '' : path })}>{text}</Link>
);

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
