import { useQuery } from '@tanstack/react-query';
import { queries } from '../../api/queries.ts';
import { Loaded } from '../../components/loaded.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { formatBytes, formatCores } from '../../lib/format.ts';
import { TEXTS } from '../../texts.ts';

const T = TEXTS.cluster;

export function ClusterPage() {
  const status = useQuery(queries.status());
  const info = useQuery(queries.info());
  const config = useQuery(queries.config());
  return (
    <>
      <h1>{T.title}</h1>
      <Loaded query={info}>
        {({ version, kubernetes_version, runtime }) => (
          <dl>
            <dt>{T.version}</dt>
            <dd>{version}</dd>
            <dt>{T.backend}</dt>
            <dd>{kubernetes_version === '' ? T.embedded : T.kubernetes(kubernetes_version)}</dd>
            <dt>{T.runtime}</dt>
            <dd>{runtime ?? T.containers}</dd>
          </dl>
        )}
      </Loaded>
      <Loaded query={config}>
        {({ minio_provider, allowed_image_repositories }) => (
          <dl>
            <dt>{T.store}</dt>
            <dd>{minio_provider.endpoint}</dd>
            <dt>{T.images}</dt>
            <dd>{allowed_image_repositories.length === 0 ? T.anyImage : allowed_image_repositories.join(', ')}</dd>
          </dl>
        )}
      </Loaded>
      <Loaded query={status}>
        {({ cluster, oscar, minio }) => (
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
        )}
      </Loaded>
    </>
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
