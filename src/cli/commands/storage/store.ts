import type { ClusterClient } from '../../client/cluster-client.ts';
import type { ProviderEntry } from '../../client/config-file.ts';
import { ClientError } from '../../client/errors.ts';
import { bodyBytes, send } from '../../client/http.ts';
import type { Session } from '../../client/session.ts';
import { printable } from '../../client/table.ts';
import { objectsOf, type RemoteListedObject } from './objects.ts';

/** An address that reads or writes one object. */
interface Presigned {
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A store as commands use it. */
export interface ClientStore {
  /** Is its certificate verified? */
  readonly verify: boolean;
  /** All objects of the place. */
  objects(place: ObjectLocation): Promise<RemoteListedObject[]>;
  presign(place: ObjectLocation, operation: 'upload' | 'download'): Promise<Presigned>;
}

/** The store of the place: the cluster's, or one that the configuration names. */
export async function findStore({ provider }: ObjectLocation, session: Session): Promise<ClientStore> {
  if (provider === undefined) return clusterStore(await session.cluster());
  return providerStore(session.config.provider(provider));
}

/** The store of a cluster, through its manager. */
export function clusterStore(cluster: ClusterClient): ClientStore {
  return {
    verify: cluster.entry.ssl_verify,
    async objects({ bucket, key }) {
      return (await objectsOf(cluster, bucket)).filter(({ object_name }) => object_name.startsWith(key));
    },
    async presign({ bucket, key }, operation) {
      const path = `/system/buckets/${encodeURIComponent(bucket)}/presign`;
      const body = { object_key: key, operation };
      return (await cluster.call('POST', path, { body, about: `bucket "${bucket}"` })).json() as Presigned;
    },
  };
}

/** How long an address is good, in seconds: a command uses it at once. */
const GOOD_FOR = 3_600;

/** How long a store may be silent. */
const PATIENCE_MS = 60_000;

/** Another store, by S3 and with the keys of the configuration. */
export async function providerStore(entry: ProviderEntry): Promise<ClientStore> {
  // Most commands do not need it.
  const { all, presignUrl, readXml, SigningSecret, textOf } = await import('../../../s3-server/index.ts');
  const signed = { endpoint: entry.endpoint, accessKey: entry.access_key, region: entry.region, expires: GOOD_FOR };
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
        if (answer.statusCode !== 200) refuse(answer.statusCode ?? 0, text, place);
        const page = readXml(text, 'ListBucketResult');
        for (const each of all(page, 'Contents')) {
          found.push({
            object_name: textOf(each, 'Key') ?? '',
            size_bytes: Number(textOf(each, 'Size') ?? 0),
            last_modified: asManagersWriteIt(textOf(each, 'LastModified') ?? ''),
          });
        }
        after = found.at(-1)?.object_name ?? '';
        if (textOf(page, 'IsTruncated') !== 'true') return found;
      }
    },
    async presign({ bucket, key }, operation) {
      const method = operation === 'upload' ? 'PUT' : 'GET';
      return { url: presignUrl({ ...signed, method, bucket, key, secret, now: Date.now() }) };
    },
  };
}

/** `2026-01-02T03:04:05.678Z` as `2026-01-02 03:04:05.678 +0000 UTC`. */
const asManagersWriteIt = (time: string) => time.replace('T', ' ').replace(/Z$/, ' +0000 UTC');

/** Throws what the answer of a store means. */
export function refuse(status: number, text: string, place: ObjectLocation): never {
  const where = printPlace(place);
  if (status === 404) {
    const bucket = printPlace({ ...place, key: '' });
    if (/<Code>NoSuchBucket</.test(text)) throw new ClientError('not-found', `there is no bucket ${bucket}`);
    throw new ClientError('not-found', `there is no object ${where}: \`oscar ls ${bucket}\` shows what is there`);
  }
  const said = /<Message>([^<]*)/.exec(text)?.[1] ?? `it answered ${status}`;
  throw new ClientError(status === 403 ? 'not-allowed' : 'failed', `the store refused ${where}: ${printable(said)}`);
}

/** An object, or a folder, of a store. */
export interface ObjectLocation {
  /** `minio.shared`; absent for the store of the cluster. */
  readonly provider?: string;
  readonly bucket: string;
  /** Empty for the whole bucket. */
  readonly key: string;
}

/** How a place of a store is written where a file could be meant, as with other tools for S3. */
const SCHEME = 's3://';

/** How a place of another store is written, as `oscar describe` shows it. */
const AT_PROVIDER = /^((?:minio|s3)\.[A-Za-z0-9_-]+):/;

export const isObjectLocation = (text: string) => text.startsWith(SCHEME) || AT_PROVIDER.test(text);

/** `bucket`, `bucket/folder/file`, with or without `s3://`; `minio.shared:bucket/folder/file`. */
export function parseObjectLocation(text: string): ObjectLocation {
  const [prefix = '', provider] = AT_PROVIDER.exec(text) ?? (text.startsWith(SCHEME) ? [SCHEME] : []);
  const bare = text.slice(prefix.length);
  const slash = bare.indexOf('/');
  const bucket = slash < 0 ? bare : bare.slice(0, slash);
  if (bucket === '') throw new ClientError('usage', `"${text}" names no bucket: write BUCKET/FOLDER`);
  return { ...(provider !== undefined && { provider }), bucket, key: slash < 0 ? '' : bare.slice(slash + 1) };
}

/** As it was written, for people. */
export const printPlace = ({ provider, bucket, key }: ObjectLocation) =>
  `${provider === undefined ? '' : `${provider}:`}${bucket}${key === '' ? '' : `/${key}`}`;

/** Where a file goes: into a folder, if that is what is named, else under that very name. */
export function isBelow(place: ObjectLocation, file: string, always: boolean): ObjectLocation {
  const { key } = place;
  const isFolder = always || key === '' || key.endsWith('/');
  const folder = key === '' || key.endsWith('/') ? key : `${key}/`;
  return isFolder ? { ...place, key: `${folder}${file}` } : place;
}
