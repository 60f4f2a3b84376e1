import type { ClusterClient } from '../../client/cluster-client.ts';
import type { ProviderEntry } from '../../client/config-file.ts';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, send } from '../../client/http.ts';
import type { Session } from '../../client/session.ts';
import { printable } from '../../client/table.ts';

export interface RemoteListedObject {
  readonly object_name: string;
  readonly size_bytes: number;
  readonly last_modified: string;
}

/** A URL that reads or writes one object. */
interface Presigned {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An object store, of a cluster or another provider. */
export interface ClientStore {
  /** Whether its certificate is verified. */
  readonly verify: boolean;
  /** All objects under the location. */
  objects(place: ObjectLocation): Promise<RemoteListedObject[]>;
  presign(place: ObjectLocation, operation: 'upload' | 'download'): Promise<Presigned>;
}

/** The store of the location: the cluster's, or a provider of the configuration. */
export async function findStore({ provider }: ObjectLocation, session: Session): Promise<ClientStore> {
  if (provider === undefined) return clusterStore(await session.cluster());
  return providerStore(session.config.provider(provider));
}

/** The store of a cluster, through its manager. */
export function clusterStore(cluster: ClusterClient): ClientStore {
  return {
    verify: cluster.entry.ssl_verify,
    async objects({ bucket, key }) {
      return (await listObjects(cluster, bucket)).filter(({ object_name }) => object_name.startsWith(key));
    },
    async presign({ bucket, key }, operation) {
      const path = `/system/buckets/${encodeURIComponent(bucket)}/presign`;
      const body = { object_key: key, operation };
      const changes = operation === 'upload';
      return (await cluster.call('POST', path, { body, changes, about: `bucket "${bucket}"` })).json() as Presigned;
    },
  };
}

/** All objects of a bucket. */
async function listObjects(cluster: ClusterClient, bucket: string): Promise<RemoteListedObject[]> {
  const found: RemoteListedObject[] = [];
  let page: string | undefined;
  do {
    const query = page === undefined ? '' : `?page=${encodeURIComponent(page)}`;
    const path = `/system/buckets/${encodeURIComponent(bucket)}${query}`;
    const { status, json } = await cluster.call('GET', path, { about: `bucket "${bucket}"`, expect: [403] });
    // A manager answers 403 for a bucket that does not exist, as it does for a bucket of another user.
    if (status === 403) {
      throw new ClientError('not-found', `bucket "${bucket}" not found on ${cluster.id}, or you have no access to it`);
    }
    const answer = json() as { objects?: RemoteListedObject[]; next_page?: string };
    found.push(...(answer.objects ?? []));
    page = answer.next_page;
  } while (page !== undefined);
  return found;
}

/** Lifetime of presigned URLs in seconds. Commands use them at once. */
const EXPIRY_S = 3_600;

/** How long a store may send nothing. */
const PATIENCE_MS = 60_000;

/** A provider of the configuration, accessed by S3 with its keys. */
export async function providerStore(entry: ProviderEntry): Promise<ClientStore> {
  // Loaded here because most commands do not need it.
  const { childElements, presignUrl, readXml, SigningSecret, childText } = await import('../../../s3-server/index.ts');
  const signed = { endpoint: entry.endpoint, accessKey: entry.access_key, region: entry.region, expires: EXPIRY_S };
  const secret = new SigningSecret(entry.secret_key);
  return {
    verify: true,
    async objects(place) {
      const { bucket, key: prefix } = place;
      const found: RemoteListedObject[] = [];
      for (let after = ''; ; ) {
        const query = { 'list-type': '2', prefix, ...(after !== '' && { 'start-after': after }) };
        const url = presignUrl({ ...signed, method: 'GET', bucket, key: '', secret, now: Date.now(), query });
        const answer = await send({ method: 'GET', url, verify: true, patienceMs: PATIENCE_MS });
        const text = (await bodyBytes(answer, url)).toString();
        if (answer.status !== 200) throwStoreError(answer.status, text, place);
        const page = readXml(text, 'ListBucketResult');
        for (const each of childElements(page, 'Contents')) {
          found.push({
            object_name: childText(each, 'Key') ?? '',
            size_bytes: Number(childText(each, 'Size') ?? 0),
            last_modified: toManagerTime(childText(each, 'LastModified') ?? ''),
          });
        }
        after = found.at(-1)?.object_name ?? '';
        if (childText(page, 'IsTruncated') !== 'true') return found;
      }
    },
    async presign({ bucket, key }, operation) {
      const method = operation === 'upload' ? 'PUT' : 'GET';
      return { url: presignUrl({ ...signed, method, bucket, key, secret, now: Date.now() }) };
    },
  };
}

/** `2026-01-02T03:04:05.678Z` as `2026-01-02 03:04:05.678 +0000 UTC`. */
const toManagerTime = (time: string) => time.replace('T', ' ').replace(/Z$/, ' +0000 UTC');

/** Throws the error that an answer of a store stands for. */
export function throwStoreError(status: number, text: string, place: ObjectLocation): never {
  const where = formatLocation(place);
  if (status === 404) {
    const bucket = formatLocation({ ...place, key: '' });
    if (/<Code>NoSuchBucket</.test(text)) throw new ClientError('not-found', `bucket ${bucket} not found`);
    throw new ClientError('not-found', `object ${where} not found: \`oscar ls ${bucket}\` lists the objects`);
  }
  const said = /<Message>([^<]*)/.exec(text)?.[1] ?? `status ${status}`;
  throw new ClientError(
    status === 403 ? 'not-allowed' : 'failed',
    `the store rejected access to ${where}: ${printable(said)}`,
  );
}

/** An object or folder of a store. */
export interface ObjectLocation {
  /** `minio.shared`; absent for the store of the cluster. */
  readonly provider?: string;
  readonly bucket: string;
  /** Empty for the whole bucket. */
  readonly key: string;
}

/** Distinguishes a location in a store from a file, as in other S3 tools. */
const SCHEME = 's3://';

/** A location at a provider, in the form that `oscar describe` prints. */
const AT_PROVIDER = /^((?:minio|s3)\.[A-Za-z0-9_-]+):/;

export const isObjectLocation = (text: string) => text.startsWith(SCHEME) || AT_PROVIDER.test(text);

/** `bucket`, `bucket/folder/file`, with or without `s3://`; `minio.shared:bucket/folder/file`. */
export function parseObjectLocation(text: string): ObjectLocation {
  const [prefix = '', provider] = AT_PROVIDER.exec(text) ?? (text.startsWith(SCHEME) ? [SCHEME] : []);
  const bare = text.slice(prefix.length);
  const slash = bare.indexOf('/');
  const bucket = slash < 0 ? bare : bare.slice(0, slash);
  if (bucket === '') throw new ClientError('usage', `"${text}" has no bucket: write BUCKET/FOLDER`);
  return { ...(provider !== undefined && { provider }), bucket, key: slash < 0 ? '' : bare.slice(slash + 1) };
}

export const formatLocation = ({ provider, bucket, key }: ObjectLocation) =>
  `${provider === undefined ? '' : `${provider}:`}${bucket}${key === '' ? '' : `/${key}`}`;

/** The location that a file is uploaded to: in the named folder, or exactly the named object. */
export function resolveTarget(place: ObjectLocation, file: string, always: boolean): ObjectLocation {
  const { key } = place;
  const isFolder = always || key === '' || key.endsWith('/');
  const folder = key === '' || key.endsWith('/') ? key : `${key}/`;
  return isFolder ? { ...place, key: `${folder}${file}` } : place;
}
