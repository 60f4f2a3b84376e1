import { hash } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  definedAccess,
  type Jobs,
  mayWrite,
  namedAccess,
  OWN_STORE,
  ownEndpoints,
  resolveOutputs,
} from '../../jobs/index.ts';
import { allSettled } from '../../lib/concurrency.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import {
  assignOutputs,
  type JobRecord,
  MAX_MANIFEST_BYTES,
  type ManifestFile,
  type ObjectAt,
  type PlannedUpload,
  readManifest,
  type S3Access,
  type StoreAccess,
} from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { type ObjectName, type ObjectStore, StoreError } from '../../ports/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { type StagingArea, stagingArea } from './staging-area.ts';

export interface CommitOrder {
  /** The service as defined at the origin. */
  readonly service: Service;
  /** The attempt with this record's epoch is committed. */
  readonly record: Pick<JobRecord, 'service' | 'id' | 'principal' | 'epoch'>;
  /** SHA-256 of the manifest, as the target reported it. */
  readonly manifest: string;
  /** The bucket of the input file, for isolation. */
  readonly eventBucket?: string;
  /** With `federation.outputs: protect`: objects of other inputs are not replaced (see `inputLabel`). */
  readonly inputLabel?: string;
}

export type CommitResult =
  /** The number of written objects, and a sentence for each file that was left out. */
  | { readonly outcome: 'committed'; readonly objects: number; readonly notes: readonly string[] }
  | { readonly outcome: 'failed'; readonly reason: 'OutputFailed' | 'OutputConflict'; readonly message: string };

/**
 * Writes the results of another cluster to the outputs of the service, by the rules of a job that runs here
 * (docs/delegation.md#how). After a crash at any point, calling it again continues, and writes nothing twice. If it
 * throws, a later try may succeed; what it returns is final.
 */
export async function commit(order: CommitOrder, deps: CommitDeps): Promise<CommitResult> {
  const { service, record, eventBucket, inputLabel } = order;
  const area = stagingArea(record, record.epoch, deps.objects);
  const mark = `${record.id}/${record.epoch}`;
  try {
    const staged = await readStaged(order.manifest, area, deps);
    const { files, notes } = assignOutputs(
      staged.map(({ name, size }) => ({ name, bytes: size })),
      resolveOutputs(service, eventBucket),
    );
    const internal = files.filter(({ to }) => to.store === OWN_STORE);
    const external = files.filter(({ to }) => to.store !== OWN_STORE);
    await checkPlaces(internal, service, record, deps);
    if (inputLabel !== undefined) await checkNoConflict(internal, { mark, inputLabel }, deps);

    const context = {
      area,
      mark,
      ...(inputLabel !== undefined && { inputLabel }),
      principal: record.principal,
      eTags: new Map(staged.map(({ name, etag }) => [name, etag])),
    };
    // Write to other providers first, because that is more likely to fail: files in our own store trigger other jobs,
    // and a job that fails should trigger few.
    await uploadToProviders(external, context, service, deps);
    await copyToOwnStore(internal, context, deps);
    return { outcome: 'committed', objects: files.length, notes };
  } catch (error) {
    if (error instanceof OutputFailed) return { outcome: 'failed', reason: error.reason, message: error.message };
    throw error;
  }
}

/** Reads the manifest and checks it against the reported digest, because others may have the attempt's keys. */
async function readStaged(
  digest: string,
  { bucket, manifest }: StagingArea,
  { objects }: Pick<CommitDeps, 'objects'>,
): Promise<readonly ManifestFile[]> {
  const bytes = await objects.read(bucket, manifest, MAX_MANIFEST_BYTES).catch((error: unknown) => {
    if (error instanceof StoreError && error.code === 'too-large') throw refused(error.message);
    throw error;
  });
  if (!bytes) throw refused('it is not there');
  if (hash('sha256', bytes) !== digest) throw refused('it is not the one that was reported');
  const files = readManifest(bytes);
  if (typeof files === 'string') throw refused(files);
  return files;
}

const refused = (why: string) =>
  new OutputFailed(`the list of the outputs that the other cluster left cannot be used: ${why}`);

/** What a commit needs. */
export interface CommitDeps extends Pick<Jobs, 'secrets' | 'objects' | 'ownStore' | 'publicStore' | 'namedStores'> {
  readonly staging: Carrier;
  /** A directory for files on their way to other providers. */
  readonly directory: string;
}

/** Moves files between stores and directories, outside this process: the part of `Staging` that a commit needs. */
interface Carrier {
  fetch(order: {
    readonly from: ObjectAt;
    readonly access: StoreAccess;
    readonly eTag?: string;
    readonly to: string;
  }): Promise<unknown>;

  upload(order: {
    readonly directory: string;
    readonly files: readonly PlannedUpload[];
    readonly stores: ReadonlyMap<string, StoreAccess>;
    readonly attempt: string;
    readonly resumed: boolean;
  }): Promise<unknown>;
}

/** Checks that all output buckets exist and that the job may write to them, as for a job that runs here. */
async function checkPlaces(
  files: readonly PlannedUpload[],
  service: Service,
  { principal }: Pick<JobRecord, 'principal'>,
  { objects }: { readonly objects: Pick<ObjectStore, 'bucket'> },
): Promise<void> {
  const names = [...new Set(files.map(({ to }) => to.bucket))];
  const buckets = await Promise.all(names.map(async (name) => ({ name, bucket: await objects.bucket(name) })));
  for (const { name, bucket } of buckets) {
    if (!bucket) throw new OutputFailed(`the outputs cannot be written: the bucket "${name}" does not exist`);
    if (!mayWrite(bucket, service, principal)) {
      throw new OutputFailed(
        `the outputs cannot be written: neither the owner of the service nor "${principal}" may write to the bucket "${name}"`,
      );
    }
  }
}

/**
 * Checks that no file would replace an object of another input, before any file is written. The store checks each object
 * again when it is copied, because others may write meanwhile.
 */
async function checkNoConflict(
  files: readonly PlannedUpload[],
  { mark, inputLabel }: { readonly mark: string; readonly inputLabel: string },
  { objects }: { readonly objects: Pick<ObjectStore, 'labels'> },
): Promise<void> {
  await runConcurrently(files, COPIES_AT_ONCE, async ({ name, to: { bucket, key } }) => {
    const existing = await objects.labels({ bucket, key });
    const isReplaceable = !existing || existing.inputLabel === inputLabel || existing.attempt === mark;
    if (!isReplaceable) throw conflict(name, { bucket, key }, existing.attempt);
  });
}

/**
 * Copies at the same time. A larger number makes transactions of the embedded store so large that others wait; with a
 * smaller one, each copy waits for the disk alone.
 */
const COPIES_AT_ONCE = 64;

/** Copies files from staging to their outputs in our own store. The bytes do not leave the store. */
async function copyToOwnStore(
  files: readonly PlannedUpload[],
  context: CommitContext,
  { objects }: { readonly objects: Pick<ObjectStore, 'place'> },
): Promise<void> {
  const { mark, principal, inputLabel } = context;
  const by = { mark, as: principal, ...(inputLabel !== undefined && { inputLabel }) };
  await runConcurrently(files, COPIES_AT_ONCE, async ({ name, to: { bucket, key } }) => {
    const placed = await objects.place(stagedObject(context, name), { bucket, key }, by);
    if (typeof placed === 'object') {
      throw new OutputFailed(`the output "${name}" could not be written to "${bucket}/${key}": ${placed.refused}`);
    }
    switch (placed) {
      case 'placed':
      case 'there':
        return;
      case 'changed':
        throw changed(name);
      case 'missing':
        throw missing(name);
      case 'conflict':
        throw conflict(name, { bucket, key });
      case 'full':
        throw new OutputFailed(`the output "${name}" could not be written: the bucket "${bucket}" is full`);
      case 'no-bucket':
        throw new OutputFailed(`the output "${name}" could not be written: the bucket "${bucket}" does not exist`);
    }
  });
}

/** Files that are on the manager's disk at the same time, on their way to other providers. */
const UPLOADS_AT_ONCE = 4;

/** Long enough for the largest file; the keys are revoked when the copy is done. */
const KEY_SECONDS = 12 * 60 * 60;

/**
 * Copies files from staging to other providers, with keys that only the origin has. A file that a provider already has
 * from this commit is skipped if the provider can store the mark; to a WebDAV provider, which cannot, the file is
 * written again.
 */
async function uploadToProviders(
  files: readonly PlannedUpload[],
  context: CommitContext,
  service: Service,
  deps: CommitDeps,
): Promise<void> {
  if (files.length === 0) return;
  const stores = await accessTo(new Set(files.map(({ to }) => to.store)), service, deps);
  const { objects, directory } = deps;
  const { area, principal } = context;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const scope = { read: [], readUnder: [{ bucket: area.bucket, prefix: area.files }], write: [] };
  const keys = await objects.issue(scope, KEY_SECONDS, principal, { inProcess: true });
  const { accessKey, secretKey, sessionToken } = keys;
  const own: S3Access = { type: 's3', ...deps.ownStore, accessKey, secretKey, sessionToken, guarded: false };
  try {
    const byName = Map.groupBy(files, ({ name }) => name);
    await runConcurrently([...byName], UPLOADS_AT_ONCE, async ([name, places]) => {
      const way = await mkdtemp(join(directory, 'commit-'));
      try {
        await fetchStaged(name, join(way, name), own, context, deps);
        await upload(places, way, stores, context, deps);
      } finally {
        await rm(way, { recursive: true, force: true });
      }
    });
  } finally {
    await objects.revoke(keys.id);
  }
}

async function accessTo(
  ids: ReadonlySet<string>,
  service: Service,
  { secrets, namedStores, ...jobs }: CommitDeps,
): Promise<ReadonlyMap<string, StoreAccess>> {
  const { credentials } = await loadSecrets(toSecretsOwner(service), { secrets });
  const stores = new Map<string, StoreAccess>();
  for (const id of ids) {
    const named = namedStores.get(id);
    const access = named ? namedAccess(named) : definedAccess(id, service, credentials, ownEndpoints(jobs));
    if (access) stores.set(id, access);
  }
  return stores;
}

async function fetchStaged(
  name: string,
  to: string,
  access: StoreAccess,
  context: CommitContext,
  { staging, objects }: Pick<CommitDeps, 'staging' | 'objects'>,
): Promise<void> {
  const { bucket, key, eTag } = stagedObject(context, name);
  try {
    await mkdir(dirname(to), { recursive: true });
    await staging.fetch({ from: { store: OWN_STORE, bucket, key }, access, eTag, to });
  } catch (error) {
    // Our own store may be the one that failed: check there whether a retry can help.
    const [found] = (await objects.objects(bucket, { prefix: key, limit: 1 })).items;
    if (found?.key !== key) throw missing(name);
    throw found.eTag === eTag ? error : changed(name);
  }
}

/** The upload has its own retries, as for a job that runs here. */
async function upload(
  files: readonly PlannedUpload[],
  directory: string,
  stores: ReadonlyMap<string, StoreAccess>,
  { mark }: CommitContext,
  { staging }: Pick<CommitDeps, 'staging'>,
): Promise<void> {
  try {
    await staging.upload({ directory, files, stores, attempt: mark, resumed: true });
  } catch (cause) {
    if (cause instanceof OscarError && cause.code === 'output-failed') throw new OutputFailed(cause.message, { cause });
    throw cause;
  }
}

/** What all files of a commit have in common. */
interface CommitContext {
  readonly area: StagingArea;
  /** A label on each final object, by which a resumed commit recognizes it. */
  readonly mark: string;
  /** See {@link CommitOrder.inputLabel}. */
  readonly inputLabel?: string;
  /** The user in whose name the objects are written. */
  readonly principal: string;
  /** ETags by file name. */
  readonly eTags: ReadonlyMap<string, string>;
}

/** The staged file, as the manifest describes it. */
function stagedObject({ area, eTags }: CommitContext, name: string): { bucket: string; key: string; eTag: string } {
  return { bucket: area.bucket, key: `${area.files}${name}`, eTag: eTags.get(name) ?? '' };
}

const changed = (name: string) =>
  new OutputFailed(`the output "${name}" was changed after the other cluster had reported it`);

const missing = (name: string) =>
  new OutputFailed(`the output "${name}" is not there, and the other cluster had reported it`);

function conflict(name: string, { bucket, key }: ObjectName, writer?: string): OutputFailed {
  const by = writer === undefined ? '' : `, which "${writer}" wrote`;
  const message = `the output "${name}" would replace "${bucket}/${key}"${by}: it is not a result of the same input, and the service protects its outputs (federation.outputs)`;
  return new OutputFailed(message, { reason: 'OutputConflict' });
}

/**
 * Runs at most `atOnce` at the same time. After a failure it starts no more, and it rejects only when none is running.
 */
async function runConcurrently<T>(
  items: readonly T[],
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const waiting = items.values();
  let failed = false;
  const worker = async () => {
    for (const item of waiting) {
      if (failed) return;
      try {
        await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await allSettled(Array.from({ length: Math.min(atOnce, items.length) }, worker));
}

/** An output cannot be written, and a retry would not help. */
class OutputFailed extends OscarError<'output-failed'> {
  readonly reason: 'OutputFailed' | 'OutputConflict';

  constructor(message: string, options: ErrorOptions & { readonly reason?: 'OutputConflict' } = {}) {
    super('output-failed', message, options);
    this.reason = options.reason ?? 'OutputFailed';
  }
}
