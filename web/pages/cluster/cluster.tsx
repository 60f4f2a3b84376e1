import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type FormEvent, type ReactNode, useMemo, useState } from 'react';
import { call } from '../../api/client.ts';
import { isEnded, useLive } from '../../api/live.ts';
import { queries, type Status, useServices } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { readField } from '../../lib/form.ts';
import { formatBytes, formatCores, formatDate } from '../../lib/format.ts';
import { useSession } from '../../session/session.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.cluster;

export function ClusterPage() {
  const status = useQuery(queries.status());
  const isAdmin = useSession().kind === 'admin';
  return (
    <>
      <h1>{T.title}</h1>
      <Facts />
      <Loaded query={status}>{(data) => <Nodes status={data} />}</Loaded>
      <QueueByOwner />
      {isAdmin && <Checks />}
      {isAdmin && <Audit />}
    </>
  );
}

function Facts() {
  const info = useQuery(queries.info());
  const config = useQuery(queries.config());
  const buckets = useQuery(queries.buckets());
  const isAdmin = useSession().kind === 'admin';
  const stored = (buckets.data ?? []).reduce((sum, { storage_usage }) => sum + storage_usage.used_bytes, 0);
  return (
    <>
      <Loaded query={info}>
        {({ manager_version, version, kubernetes_version, runtime, isolation }) => (
          <dl>
            <dt>{T.version}</dt>
            <dd>{`${manager_version} (API ${version})`}</dd>
            <dt>{T.backend}</dt>
            <dd>{kubernetes_version === '' ? T.embedded : T.kubernetes(kubernetes_version)}</dd>
            <dt>{T.runtime}</dt>
            <dd>{runtime ?? T.containers}</dd>
            {isolation && (
              <>
                <dt>{T.isolation}</dt>
                <dd>
                  {isolation.namespaces
                    ? T.isolated(isolation.enforced)
                    : `${T.notIsolated}: ${isolation.reason ?? ''}`}
                </dd>
              </>
            )}
          </dl>
        )}
      </Loaded>
      <Loaded query={config}>
        {({ minio_provider, allowed_image_repositories, config: settings }) => (
          <>
            <dl>
              <dt>{T.store}</dt>
              <dd>
                {minio_provider.endpoint}
                {buckets.data && `, ${T.usage(formatBytes(stored), buckets.data.length)}`}
              </dd>
              <dt>{T.namespace}</dt>
              <dd>{settings.services_namespace}</dd>
              <dt>{T.groups}</dt>
              <dd>{settings.oidc_groups.filter((group) => group !== '').join(', ') || T.everybody}</dd>
              {(Object.keys(T.settingNames) as (keyof typeof T.settingNames)[]).map((name) => (
                <Setting key={name} name={T.settingNames[name]} value={settings[name]} />
              ))}
              <dt>{T.images}</dt>
              <dd>
                {isAdmin ? (
                  <ImagesForm repositories={allowed_image_repositories} />
                ) : (
                  allowed_image_repositories.join(', ') || T.anyImage
                )}
              </dd>
            </dl>
          </>
        )}
      </Loaded>
    </>
  );
}

function Setting({ name, value }: { name: string; value: boolean }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value ? T.on : T.off}</dd>
    </>
  );
}

/** The repositories that images may come from; only the administrator changes them. */
function ImagesForm({ repositories }: { repositories: readonly string[] }) {
  const client = useQueryClient();
  const [problem, setProblem] = useState('');
  const save = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const lines = readField(new FormData(event.currentTarget), 'images').split('\n');
    const list = lines.map((line) => line.trim()).filter((line) => line !== '');
    try {
      await call('PUT /system/config', { body: { allowed_image_repositories: list } });
      setProblem('');
      await client.invalidateQueries({ queryKey: ['config'] });
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <label>
        {T.imagesHint}
        <textarea name="images" rows={3} defaultValue={repositories.join('\n')} />
      </label>
      <p className="actions">
        <button type="submit">{T.save}</button>
      </p>
      {problem !== '' && (
        <p className="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

function Nodes({ status: { cluster, oscar, minio } }: { status: Status }) {
  return (
    <>
      <dl>
        <dt>{T.issuers}</dt>
        <dd>{oscar.oidc.enabled ? oscar.oidc.issuers.join(', ') : TEXTS.none}</dd>
        {minio.buckets_count > 0 && (
          <>
            <dt>{T.store}</dt>
            <dd>{T.objects(minio.buckets_count, minio.total_objects)}</dd>
          </>
        )}
      </dl>
      <h2>{T.nodes}</h2>
      <ul className="nodes">
        {(cluster.nodes ?? []).map(({ name, status: state, cpu, memory, gpu }) => (
          <li key={name} className="panel">
            <h3>
              {name} <StateBadge state={state} />
            </h3>
            <Meter
              label={TEXTS.overview.cpu}
              used={cpu.request_cores ?? 0}
              total={cpu.capacity_cores ?? 0}
              text={`${formatCores(cpu.request_cores ?? 0)} / ${formatCores(cpu.capacity_cores ?? 0)}`}
            />
            <Meter
              label={TEXTS.overview.memory}
              used={memory.request_bytes ?? 0}
              total={memory.capacity_bytes ?? 0}
              text={`${formatBytes(memory.request_bytes ?? 0)} / ${formatBytes(memory.capacity_bytes ?? 0)}`}
            />
            {gpu > 0 && <p>{`${TEXTS.overview.gpu}: ${gpu}`}</p>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Jobs that have not ended, of the services that the user may see. */
function QueueByOwner() {
  const { jobs } = useLive();
  const services = useServices();
  const rows = useMemo(() => {
    const owners = new Map((services.data ?? []).map(({ name, owner }) => [name, owner]));
    const counts = new Map<string, { queued: number; running: number }>();
    for (const job of jobs.values()) {
      if (isEnded(job)) continue;
      const owner = owners.get(job.service) ?? '';
      const count = counts.get(owner) ?? { queued: 0, running: 0 };
      counts.set(owner, count);
      if (job.phase === 'Running') count.running++;
      else count.queued++;
    }
    return [...counts].toSorted(([, one], [, other]) => other.queued - one.queued);
  }, [jobs, services.data]);
  return (
    <section>
      <h2>{T.queue}</h2>
      {rows.length === 0 ? (
        <p className="quiet">{T.emptyQueue}</p>
      ) : (
        <Table titles={[T.owner, TEXTS.overview.queued, TEXTS.overview.running]}>
          {rows.map(([owner, { queued, running }]) => (
            <tr key={owner}>
              <th scope="row">{owner}</th>
              <td>{queued}</td>
              <td>{running}</td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  );
}

function Checks() {
  const checks = useQuery(queries.checks());
  return (
    <section>
      <h2>{T.checks}</h2>
      <Loaded query={checks}>
        {(list) => (
          <Table titles={['', T.where, T.check, T.finding]}>
            {list.map(({ where, what, ok, warning, said }) => (
              <tr key={`${where} ${what} ${said}`}>
                <td>
                  <span className={`badge badge-${ok ? (warning ? 'wait' : 'good') : 'bad'}`}>
                    {ok ? (warning ? T.warning : T.ok) : T.failed}
                  </span>
                </td>
                <th scope="row">{where}</th>
                <td>{what}</td>
                <td>{said}</td>
              </tr>
            ))}
          </Table>
        )}
      </Loaded>
    </section>
  );
}

/** Records that are shown. */
const MOST_RECORDS = 100;

function Audit() {
  const audit = useQuery(queries.audit());
  return (
    <section>
      <h2>{T.audit}</h2>
      <Loaded query={audit}>
        {(records) =>
          records.length === 0 ? (
            <p className="quiet">{T.noAudit}</p>
          ) : (
            <Table titles={[T.time, T.actor, T.action, T.object, T.outcome]}>
              {records.slice(0, MOST_RECORDS).map(({ time, actor, action, object, outcome, reason, request }) => (
                <tr key={`${time} ${request ?? ''} ${action} ${object ?? ''}`}>
                  <td>{formatDate(time)}</td>
                  <td className="mono">{actor}</td>
                  <td>{action}</td>
                  <td>{object}</td>
                  <td>
                    {outcome}
                    {reason !== undefined && `, ${reason}`}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </section>
  );
}

function Table({ titles, children }: { titles: readonly string[]; children: ReactNode }) {
  return (
    <div className="table-scroll">
      <table>
        <thead>
          <tr>
            {titles.map((title) =>
              title === '' ? (
                <td key={title} />
              ) : (
                <th key={title} scope="col">
                  {title}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** A bar that shows how much of something is in use. */
function Meter({ label, used, total, text }: { label: string; used: number; total: number; text: string }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  return (
    <div
      className="meter"
      role="meter"
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={used}
      aria-valuetext={text}
    >
      <span className="meter-label">{label}</span>
      <span className="meter-track">
        <span className={`meter-fill ${share > 0.9 ? 'meter-full' : ''}`} style={{ width: `${share * 100}%` }} />
      </span>
      <span className="meter-text">{text}</span>
    </div>
  );
}
