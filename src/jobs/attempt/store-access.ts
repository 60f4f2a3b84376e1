import type { StorageProvider } from '../../config/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobRecord, S3Access, StoreAccess } from '../../model/job/index.ts';
import { parseProvider, providerSlot, type Service } from '../../model/service/index.ts';
import type { SecretStore } from '../../ports/index.ts';
import type { NamedFile } from '../event.ts';
import type { Jobs } from '../jobs.ts';
import { OWN_STORE, type ReadableFile } from './rights.ts';

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
