import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { lazy, useState } from 'react';
import { call } from '../../api/client.ts';
import { isEnded, jobKey, useLive } from '../../api/live.ts';
import { membersOf, queries, type Service } from '../../api/queries.ts';
import { ConfirmDialog } from '../../components/confirm-dialog.tsx';
import { JobLink } from '../../components/job-link.tsx';
import { Link } from '../../components/link.tsx';
import { Loaded, Problem } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { serverNow } from '../../lib/clock.ts';
import { navigate, toPath, useLocation } from '../../lib/router.ts';
import { TEXTS } from '../../texts.ts';
import { JobLog } from '../jobs/job-log.tsx';
import { Replicas } from './replicas.tsx';

const ServiceEditor = lazy(async () => ({ default: (await import('./service-editor.tsx')).ServiceEditor }));

const T = TEXTS.services;

export function ServicePage({ name }: { name: string }) {
  const found = useQuery(queries.service(name));
  const { query } = useLocation();
  return (
    <Loaded query={found}>
      {({ service, etag }) =>
        query.get('edit') === null ? (
          <ServiceDetails service={service} etag={etag} />
        ) : (
          <ServiceEditor service={service} etag={etag} />
        )
      }
    </Loaded>
  );
}

function ServiceDetails({ service, etag }: { service: Service; etag: string | undefined }) {
  const { name, image, visibility, owner } = service;
  return (
    <>
      <p className="breadcrumb">
        <Link to={toPath(['services'])}>{T.title}</Link> /
      </p>
      <h1>{name}</h1>
      <p className="actions">
        <Link to={toPath(['jobs'], { service: name })} className="button">
          {T.jobs}
        </Link>
        <Link to={toPath(['run'], { service: name })} className="button">
          {TEXTS.views.run}
        </Link>
        <Link to={toPath(['services', name], { edit: 'true' })} className="button">
          {T.edit}
        </Link>
        <DeleteButton service={service} />
      </p>
      <dl>
        <dt>{T.image}</dt>
        <dd>{image}</dd>
        <dt>{T.visibility}</dt>
        <dd>{visibility}</dd>
        <dt>{T.owner}</dt>
        <dd>{owner}</dd>
      </dl>
      <section>
        <h2>{T.replicas}</h2>
        <Replicas service={service} etag={etag} />
      </section>
      <section>
        <h2>{T.recentJobs}</h2>
        <RecentJobs name={name} />
      </section>
      <section>
        <h2>{T.usage}</h2>
        <Usage name={name} />
      </section>
      <section>
        <h2>{T.call}</h2>
        <Token token={service.token} />
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
        <pre className="log" tabIndex={0}>
          {callExamples(service)}
        </pre>
      </section>
      <section>
        <h2>{T.definition}</h2>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
        <pre className="log" tabIndex={0}>
          {JSON.stringify(withoutSecrets(service), null, 2)}
        </pre>
      </section>
    </>
  );
}

/** More jobs are on the page of jobs. */
const RECENT = '5';

function RecentJobs({ name }: { name: string }) {
  const live = useLive();
  const recent = useQuery({
    queryKey: ['jobs', 'recent', name],
    queryFn: async ({ signal }) =>
      (await call('GET /system/jobs', { query: { service: name, limit: RECENT }, signal })).data.jobs,
    refetchInterval: 5_000,
  });
  return (
    <Loaded query={recent}>
      {([latest, ...more]) =>
        latest === undefined ? (
          <p className="quiet">{T.noJobs}</p>
        ) : (
          <>
            <ul className="recent">
              {[latest, ...more].map((job) => (
                <li key={job.id}>
                  <StateBadge state={(live.jobs.get(jobKey(job)) ?? job).state} /> <JobLink job={job} />{' '}
                  <span className="quiet">{job.message}</span>
                </li>
              ))}
            </ul>
            <h3>{T.lastLog}</h3>
            <JobLog service={name} id={latest.id} isEnded={isEnded(latest)} />
          </>
        )
      }
    </Loaded>
  );
}

const MONTH_MS = 30 * 86_400_000;

function Usage({ name }: { name: string }) {
  const usage = useQuery({
    queryKey: ['usage', name],
    queryFn: async ({ signal }) => {
      const [start, end] = [serverNow() - MONTH_MS, serverNow()].map((time) => new Date(time).toISOString());
      const query = { ...(start !== undefined && { start }), ...(end !== undefined && { end }) };
      const { data } = await call('GET /system/metrics/{name}', { path: { name }, query, signal });
      // Without the name of a metric, the manager answers with all of them.
      return 'metrics' in data ? data.metrics : [data];
    },
  });
  return (
    <Loaded query={usage}>
      {(metrics) => (
        <dl>
          {metrics.map(({ metric, value, unit }) => (
            <div key={metric}>
              <dt>{metric.replaceAll('-', ' ')}</dt>
              <dd>
                {Math.round(value * 100) / 100} {unit}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </Loaded>
  );
}

/** Hidden until asked for: people share their screens. */
function Token({ token }: { token: string | undefined }) {
  const [isShown, setShown] = useState(false);
  if (token === undefined || token === '') return null;
  return (
    <p>
      {T.token}: {isShown && <code>{token}</code>}{' '}
      <button type="button" onClick={() => setShown(!isShown)}>
        {isShown ? T.hideToken : T.showToken}
      </button>
    </p>
  );
}

/** The token is a secret that people would copy with the rest. */
const withoutSecrets = ({ token: _, ...shown }: Service) => shown;

function callExamples({ name, input }: Service): string {
  const { origin } = location;
  const lines = [
    `# wait for the answer`,
    `curl -H "Authorization: Bearer $TOKEN" ${origin}/run/${name} --data-binary @input.txt`,
    `# queue a job`,
    `curl -H "Authorization: Bearer $TOKEN" ${origin}/job/${name} --data-binary @input.txt`,
    `# the command line`,
    `oscar run ${name} --file input.txt`,
    `# Python`,
    `from oscar_python.client import Client`,
    `Client({"endpoint": "${origin}", "oidc_token": token, "ssl": True}).run_service("${name}", input="input.txt")`,
    ...(input ?? []).map(({ path }) => `# or upload a file to ${path}`),
  ];
  return lines.join('\n');
}

/** Buckets of its inputs and outputs in the store of this cluster. */
function bucketsOf({ input, output }: Service): string[] {
  const own = [...(input ?? []), ...(output ?? [])].filter(({ storage_provider }) =>
    /^minio(\.default)?$/.test(storage_provider),
  );
  return [...new Set(own.map(({ path }) => path.split('/')[0] ?? ''))].filter((bucket) => bucket !== '');
}

function DeleteButton({ service }: { service: Service }) {
  const { name } = service;
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: () => call('DELETE /system/services/{name}', { path: { name } }),
    onSuccess: async () => {
      client.removeQueries({ queryKey: ['services', name] });
      await client.invalidateQueries({ queryKey: ['services'] });
      navigate(toPath(['services']));
    },
  });
  return (
    <>
      <button type="button" className="danger" onClick={() => setAsking(true)}>
        {T.delete}
      </button>
      {remove.isError && <Problem error={remove.error} />}
      {asking && (
        <ConfirmDialog
          title={T.deleteQuestion(name)}
          yes={T.delete}
          no={T.deleteNo}
          onYes={() => remove.mutate()}
          onNo={() => setAsking(false)}
        >
          <p>{T.deleteWill}</p>
          <ul>
            <li>{T.jobsWillGo}</li>
            {bucketsOf(service).map((bucket) => (
              <li key={bucket}>{T.bucketWillGo(bucket)}</li>
            ))}
            {membersOf(service).map(({ cluster_id, service_name }) => (
              <li key={`${cluster_id}/${service_name}`}>{T.replicaWillGo(`${cluster_id}/${service_name}`)}</li>
            ))}
          </ul>
        </ConfirmDialog>
      )}
    </>
  );
}
