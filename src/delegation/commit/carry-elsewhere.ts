import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { OscarError } from '../../base/oscar-error.ts';
import { loadSecrets, ownerOfSecrets } from '../../catalog/index.ts';
import type { PlannedUpload, S3Access, StoreAccess } from '../../cluster/index.ts';
import { definedAccess, namedAccess, OWN_STORE, ownEndpoints } from '../../jobs/index.ts';
import type { Service } from '../../service/index.ts';
import { type Commission, changed, missing, stagedObject } from './commission.ts';
import type { CommitDeps } from './commit-deps.ts';
import { inParallel } from './in-parallel.ts';
import { OutputFailed } from './output-failed.ts';

/** Files that lie on the disk of the manager at the same time, on their way. */
const AT_ONCE = 4;

/** Long enough for the largest file; they are ended before. */
const KEY_SECONDS = 12 * 60 * 60;

/**
 * Brings files from staging to other providers, with keys that only the origin has. What a provider already has from
 * this commit is left alone, where it can keep the mark; to one that cannot (WebDAV) it is written again.
 */
export async function carryElsewhere(
  files: readonly PlannedUpload[],
  commission: Commission,
  service: Service,
  deps: CommitDeps,
): Promise<void> {
  if (files.length === 0) return;
  const stores = await accessTo(new Set(files.map(({ to }) => to.store)), service, deps);
  const { objects, directory } = deps;
  const { area, principal } = commission;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const scope = { read: [], readUnder: [{ bucket: area.bucket, prefix: area.files }], write: [] };
  const keys = await objects.issue(scope, KEY_SECONDS, principal, { inProcess: true });
  const { accessKey, secretKey, sessionToken } = keys;
  const own: S3Access = { type: 's3', ...deps.ownStore, accessKey, secretKey, sessionToken, guarded: false };
  try {
    const byName = Map.groupBy(files, ({ name }) => name);
    await inParallel([...byName], AT_ONCE, async ([name, places]) => {
      const way = await mkdtemp(join(directory, 'commit-'));
      try {
        await fetchStaged(name, join(way, name), own, commission, deps);
        await upload(places, way, stores, commission, deps);
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
  const { credentials } = await loadSecrets(ownerOfSecrets(service), { secrets });
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
  commission: Commission,
  { staging, objects }: Pick<CommitDeps, 'staging' | 'objects'>,
): Promise<void> {
  const { bucket, key, eTag } = stagedObject(commission, name);
  try {
    await mkdir(dirname(to), { recursive: true });
    await staging.fetch({ from: { store: OWN_STORE, bucket, key }, access, eTag, to });
  } catch (error) {
    // Our own store may be what failed: only it can say whether another time would help.
    const [found] = (await objects.objects(bucket, { prefix: key, limit: 1 })).items;
    if (found?.key !== key) throw missing(name);
    throw found.eTag === eTag ? error : changed(name);
  }
}

/** Whoever uploads has tried for a while, as for a job that runs here. */
async function upload(
  files: readonly PlannedUpload[],
  directory: string,
  stores: ReadonlyMap<string, StoreAccess>,
  { mark }: Commission,
  { staging }: Pick<CommitDeps, 'staging'>,
): Promise<void> {
  try {
    await staging.upload({ directory, files, stores, attempt: mark, resumed: true });
  } catch (cause) {
    if (cause instanceof OscarError && cause.code === 'output-failed') throw new OutputFailed(cause.message, { cause });
    throw cause;
  }
}
