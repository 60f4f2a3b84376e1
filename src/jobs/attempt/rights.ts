import { mayBucket } from '../../buckets/index.ts';
import type { User } from '../../identity/index.ts';
import type { JobRecord, StageOut } from '../../model/job/index.ts';
import { parseProvider, type Service } from '../../model/service/index.ts';
import type { Bucket, ObjectStore } from '../../ports/index.ts';
import { isInput, type NamedFile } from '../event.ts';

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
