import { mayBucket } from '../../buckets/index.ts';
import type { StorageProvider } from '../../config/index.ts';
import type { User } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobRecord, S3Access, StageOut, StoreAccess } from '../../model/job/index.ts';
import { parseProvider, providerSlot, type Service } from '../../model/service/index.ts';
import type { Bucket, ObjectStore, SecretStore } from '../../ports/index.ts';
import { isInput, type NamedFile } from '../event.ts';
import type { Jobs } from '../jobs.ts';

/** Secrets that are stored apart from a definition, by slot. */
type Credentials = Readonly<Record<string, Secret>>;

const NONE = new Secret('');

/** Access to a provider that the operator defined. The operator chose its address, so it is not guarded. */
export function namedAccess(provider: StorageProvider): StoreAccess {
  switch (provider.type) {
    case 'minio': {
      const { endpoint, region, accessKey, secretKey, verify } = provider;
      return { type: 's3', endpoint, region, accessKey, secretKey, verify, guarded: false };
    }
    case 's3': {
      const { region, accessKey, secretKey } = provider;
      return { type: 's3', region, accessKey, secretKey, verify: true, guarded: false };
    }
    case 'webdav': {
      const { hostname, login, password } = provider;
      return { type: 'webdav', hostname, login, password, guarded: false };
    }
  }
}

/** All addresses of the store of this cluster. */
export const ownEndpoints = ({ ownStore, publicStore }: Pick<Jobs, 'ownStore' | 'publicStore'>): readonly string[] =>
  publicStore ? [ownStore.endpoint, publicStore.endpoint] : [ownStore.endpoint];

/**
 * Access to a provider of the definition, with its separately stored keys. A user chose its address, so connections to it
 * are guarded, unless it is the store of this cluster.
 */
export function definedAccess(
  store: string,
  { definition }: Service,
  credentials: Credentials,
  own: readonly string[],
): StoreAccess | undefined {
  const { type, id } = parseProvider(store);
  const key = (field: string) => credentials[providerSlot(`${type}.${id}`, field)] ?? NONE;
  const providers = definition.storage_providers;
  if (type === 'minio' && providers?.minio?.[id]) {
    const { endpoint, region, verify } = providers.minio[id];
    const keys = { accessKey: key('access_key'), secretKey: key('secret_key') };
    return { type: 's3', endpoint, region: region || 'us-east-1', ...keys, verify, guarded: !own.includes(endpoint) };
  }
  if (type === 's3' && providers?.s3?.[id]) {
    const keys = { accessKey: key('access_key'), secretKey: key('secret_key') };
    return { type: 's3', region: providers.s3[id].region || 'us-east-1', ...keys, verify: true, guarded: true };
  }
  if (type === 'webdav' && providers?.webdav?.[id]) {
    const { hostname, login } = providers.webdav[id];
    return { type: 'webdav', hostname, login, password: key('password'), guarded: true };
  }
  return undefined;
}

/** Go managers that delegate jobs to this one. The files of these jobs are in the stores of their origins (decision 0036). */
export interface UpstreamOrigins {
  /**
   * The store of that cluster, with the keys of the caller there. Undefined unless the operator has registered the cluster as
   * one with a Go manager: no other address is contacted, whatever a caller or a definition says (F32).
   */
  storeOf(clusterId: string, bearer: Secret | undefined): Promise<S3Access | undefined>;

  /** Throws if the object cannot be read in that store. */
  proveReadable(file: Pick<ReadableFile, 'bucket' | 'key'>, access: S3Access): Promise<void>;
}

type OriginStoreJob = Pick<JobRecord, 'service' | 'id' | 'invoker' | 'delegatedFrom'>;

/** The keys belong to the caller, so the caller is part of the name: another caller with the same id does not get them. */
const originStoreKey = ({ service, id, invoker }: OriginStoreJob) => `${service}/${id}/${invoker}`;

/** Stores the keys of a job apart from its record, until the job has ended. */
export async function saveOriginStore(
  job: OriginStoreJob,
  access: S3Access,
  secrets: Pick<SecretStore, 'put'>,
): Promise<void> {
  const { endpoint = '', region, verify, guarded, accessKey, secretKey } = access;
  const plain = { endpoint, region, verify: String(verify), guarded: String(guarded) };
  const values = Object.entries(plain).map(([name, value]) => [name, new Secret(value)] as const);
  await secrets.put('job', originStoreKey(job), { ...Object.fromEntries(values), accessKey, secretKey });
}

/** The store with the files of a job that a Go manager delegated; undefined for other jobs. */
export async function loadOriginStore(
  job: OriginStoreJob,
  secrets: Pick<SecretStore, 'get'>,
): Promise<S3Access | undefined> {
  if (job.delegatedFrom === undefined) return undefined;
  const values = (await secrets.get('job', originStoreKey(job)))?.values;
  if (!values?.['accessKey'] || !values['secretKey']) return undefined;
  const { accessKey, secretKey } = values;
  const text = (name: string) => values[name]?.reveal() ?? '';
  const address = { endpoint: text('endpoint'), region: text('region'), verify: text('verify') === 'true' };
  return { type: 's3', ...address, accessKey, secretKey, guarded: text('guarded') !== 'false' };
}

export async function removeOriginStore(job: OriginStoreJob, secrets: Pick<SecretStore, 'remove'>): Promise<void> {
  if (job.delegatedFrom !== undefined) await secrets.remove('job', originStoreKey(job));
}

/** The file of an event if it is in the store of that cluster, which calls it `default`. */
export function fileAtOrigin(file: NamedFile | undefined, clusterId: string): ReadableFile | undefined {
  if (file?.type !== 'minio') return undefined;
  const provider = (file.provider ?? '').replace(/^minio\./, '');
  if (provider !== '' && provider !== 'default' && provider !== clusterId) return undefined;
  return { store: OWN_STORE, bucket: file.bucket, key: file.key };
}

/** The fields of a job that decide which file it may read. */
export type Claimant = Pick<JobRecord, 'principal' | 'trigger' | 'byToken'>;

/** A file that a job may read, with the store that contains it. */
export interface ReadableFile {
  /** `minio.default`, `s3.archive`, `webdav.dcache`. */
  readonly store: string;
  readonly bucket: string;
  readonly key: string;
}

export const OWN_STORE = 'minio.default';

/**
 * The file that an event names, if the job may read it. Otherwise the event is plain data: nobody gains access to a file by
 * writing its name into an event (S3). The authenticated caller decides, never what the event says about its caller.
 *
 * A user gets the files that the user may read. Everybody who may invoke a service knows its token, so for a call with the
 * token, as for an event of the store, the file must be under an input of the service. A `/run` call with the token gets no
 * file, because its caller receives the answer.
 */
export async function readableFile(
  file: NamedFile,
  job: Claimant,
  service: Service,
  objects: Pick<ObjectStore, 'bucket'>,
): Promise<ReadableFile | undefined> {
  if (file.type === 'dcache') return dcacheFile(file.name, service);
  const store = providerFor(file);
  const { bucket, key } = file;
  if (store !== OWN_STORE) return mayReadProvider(store, job, service) ? { store, bucket, key } : undefined;

  const found = await objects.bucket(bucket);
  return found && mayRead(found, key, job, service) ? { store, bucket, key } : undefined;
}

function mayRead(bucket: Bucket, key: string, job: Claimant, service: Service): boolean {
  if (!job.byToken && job.trigger !== 'storage') return mayBucket(asUser(job.principal), 'use', bucket);
  if (job.trigger === 'run') return false;
  return (
    isInput({ bucket: bucket.name, key }, service) &&
    (bucket.madeFor?.uid === service.uid || mayBucket(asUser(service.owner), 'use', bucket))
  );
}

/** The keys of a provider in the definition belong to the owner: only jobs of the owner read with them. */
function mayReadProvider(store: string, job: Claimant, { owner, definition }: Service): boolean {
  const { type, id } = parseProvider(store);
  const defined = definition.storage_providers?.[type as 's3' | 'minio']?.[id] !== undefined;
  return defined && !job.byToken && job.principal === owner;
}

/** A forwarded event may name the provider with or without its type. */
function providerFor({ type, provider = '' }: Extract<NamedFile, { type: 'minio' | 's3' }>): string {
  const id = provider.replace(/^(minio|s3)\./, '');
  return `${type}.${id || 'default'}`;
}

function dcacheFile(name: string, { definition }: Service): ReadableFile | undefined {
  const input = definition.input.find(({ storage_provider }) => storage_provider.toLowerCase() === 'webdav.dcache');
  if (!input || name.split('/').some((part) => part === '' || part === '.' || part === '..')) return undefined;
  return { store: 'webdav.dcache', bucket: '', key: input.path === '' ? name : `${input.path}/${name}` };
}

/**
 * Whether the job's principal or the owner of the service may write to the bucket. When the definition was accepted its
 * buckets belonged to the owner; by now another user may have a bucket of that name.
 */
export const mayWrite = (bucket: Bucket, service: Service, principal: string): boolean =>
  bucket.madeFor?.uid === service.uid ||
  [service.owner, principal].some((uid) => mayBucket(asUser(uid), 'use', bucket));

/** The outputs in the store of this cluster that a job may write to. An output without a bucket stays, so that the upload reports it. */
export async function writableOutputs(
  outputs: readonly StageOut[],
  service: Service,
  { principal }: Pick<JobRecord, 'principal'>,
  { objects }: { readonly objects: Pick<ObjectStore, 'bucket'> },
): Promise<StageOut[]> {
  const own = outputs.filter(({ store }) => store === OWN_STORE);
  const buckets = await Promise.all(own.map(({ bucket }) => objects.bucket(bucket)));
  return own.filter((_, index) => {
    const bucket = buckets[index];
    return !bucket || mayWrite(bucket, service, principal);
  });
}

/** The uid as a principal for the rules of buckets. Services of the administrator have the rights of no user. */
const asUser = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
