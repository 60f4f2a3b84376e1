import { mayBucket } from '../../buckets/index.ts';
import type { User } from '../../identity/index.ts';
import type { JobRecord, StageOut } from '../../model/job/index.ts';
import { parseProvider, type Service } from '../../model/service/index.ts';
import type { Bucket, ObjectStore } from '../../ports/index.ts';
import { isInput, type NamedFile } from '../event.ts';

/** What of a job decides which file it may have. */
export type Claimant = Pick<JobRecord, 'principal' | 'trigger' | 'byToken'>;

/** A file that a job may read, by the store that has it. */
export interface ReadableFile {
  /** `minio.default`, `s3.archive`, `webdav.dcache`. */
  readonly store: string;
  readonly bucket: string;
  readonly key: string;
}

export const OWN_STORE = 'minio.default';

/**
 * The file that an event names, if the job may have it. Otherwise the event is data: nobody gets at a file by writing its
 * name into an event (S3). What counts is who called, never what the event says about that.
 *
 * A user gets what they may read. The token of a service is known to everybody who may invoke it, so what it brings must
 * lie under an input of the service, like the events of the store itself; and a caller of `/run`, who is given the
 * answer, gets nothing by it.
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

/** Whoever the owner gave keys to in the definition is the owner's affair: nobody else reads with them. */
function mayReadProvider(store: string, job: Claimant, { owner, definition }: Service): boolean {
  const { type, id } = parseProvider(store);
  const defined = definition.storage_providers?.[type as 's3' | 'minio']?.[id] !== undefined;
  return defined && !job.byToken && job.principal === owner;
}

/** Who passes an event on may name the provider with its type or without. */
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
 * May the job's principal or the owner of the service write there? When the definition was taken its buckets were the
 * owner's; somebody else may have one of that name by now.
 */
export const mayWrite = (bucket: Bucket, service: Service, principal: string): boolean =>
  bucket.madeFor?.uid === service.uid ||
  [service.owner, principal].some((uid) => mayBucket(asUser(uid), 'use', bucket));

/** Those of our own store that a job may write to. One without a bucket stays: that it is missing is what is to be said. */
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

/** A principal for the rules of buckets. The administrator's services work with the rights of no user. */
const asUser = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
