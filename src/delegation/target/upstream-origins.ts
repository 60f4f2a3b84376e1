import type { Config } from '../../config/index.ts';
import type { UpstreamOrigins } from '../../jobs/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { S3Access } from '../../model/job/index.ts';
import { authorization, DelegationError, type PeerConnections, PeerError, resolveCluster } from '../../peers/index.ts';
import type { TargetConfig } from './target.ts';

export interface UpstreamOriginsDeps extends Pick<TargetConfig, 'unreadable'> {
  /** `OSCAR_CLUSTERS`. */
  readonly registered: Config['clusters'];
  readonly lines: Pick<PeerConnections, 'connectionTo'>;
}

/** Deadlines within the 20 s for which a Go manager waits for the answer to a delegated job. */
const CONFIG_DEADLINE = 8_000;
const HEAD_DEADLINE = 4_000;

/**
 * Access to the files of jobs that Go managers delegate to this one (decision 0036). The Go manager gives each user
 * their own keys; it is asked at the address that the operator has registered, with the token that came with the job.
 */
export function upstreamOrigins({ registered, lines, unreadable }: UpstreamOriginsDeps): UpstreamOrigins {
  return {
    async storeOf(clusterId, bearer) {
      const known = registered.get(clusterId);
      if (known?.kind !== 'upstream') return undefined;
      if (!bearer) {
        const why = `cluster "${clusterId}" gives keys of its object store to users only`;
        throw new DelegationError('input-unreadable', `${why}: delegate the job with an access token of its user`);
      }
      const config = await askConfig(clusterId, bearer, { registered, lines });
      return accessIn(config, known.store) ?? refuse(clusterId, 'named no object store, or no keys for it');
    },

    async proveReadable({ bucket, key }, access) {
      const why = await unreadable({ bucket, key }, access, AbortSignal.timeout(HEAD_DEADLINE));
      if (why !== undefined) throw new DelegationError('input-unreadable', `"${bucket}/${key}" cannot be read: ${why}`);
    },
  };
}

async function askConfig(
  clusterId: string,
  token: Secret,
  { registered, lines }: Pick<UpstreamOriginsDeps, 'registered' | 'lines'>,
): Promise<unknown> {
  const resolved = resolveCluster(clusterId, undefined, { registered, networks: [], isOwn: () => false });
  const line = 'address' in resolved ? lines.connectionTo(resolved.address) : 'self';
  if (line === 'self') return refuse(clusterId, 'is this cluster');
  try {
    const { status, json } = await line.send({
      method: 'GET',
      path: '/system/config',
      headers: authorization({ kind: 'bearer', token }, clusterId),
      deadline: CONFIG_DEADLINE,
      repeatable: true,
    });
    return status === 200 ? json : refuse(clusterId, `answered ${status} to the request for the keys of the caller`);
  } catch (cause) {
    if (!(cause instanceof PeerError)) throw cause;
    const why = `cluster "${clusterId}" delegated a job but did not answer the request for the keys of its files`;
    throw new DelegationError('origin-silent', why, { cause });
  }
}

/**
 * The address that a Go manager reports may be valid only inside its cluster, so an address that the operator has
 * registered takes precedence.
 */
function accessIn(config: unknown, registered: string | undefined): S3Access | undefined {
  const provider = isObject(config) && isObject(config['minio_provider']) ? config['minio_provider'] : {};
  const text = (name: string) => (typeof provider[name] === 'string' ? provider[name] : '');
  const endpoint = registered ?? text('endpoint');
  const [accessKey, secretKey] = [text('access_key'), text('secret_key')];
  if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint) || accessKey === '' || secretKey === '')
    return undefined;
  return {
    type: 's3',
    endpoint,
    region: text('region') || 'us-east-1',
    verify: provider['verify'] !== false,
    accessKey: new Secret(accessKey),
    secretKey: new Secret(secretKey),
    guarded: registered === undefined,
  };
}

function refuse(clusterId: string, why: string): never {
  throw new DelegationError('input-unreadable', `cluster "${clusterId}" ${why}`);
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
