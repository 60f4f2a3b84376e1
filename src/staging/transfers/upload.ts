import { hash } from 'node:crypto';
import type { Slots } from '../../lib/concurrency.ts';
import {
  MAX_MANIFEST_FILES,
  type ManifestFile,
  type ObjectAt,
  type PlannedUpload,
  writeManifest,
} from '../../model/job/index.ts';
import { StagingError, type StagingErrorCode } from './errors.ts';
import { openOutput, type RemoteStore, TransferError, toOutputFile, withRetries } from './remote-store.ts';
import type { UploadOrder } from './staging.ts';

export interface UploadDeps {
  /** Opens a store with the current keys; called for each file. Rejects if there are no keys. */
  readonly store: (id: string) => Promise<RemoteStore>;
  /** Limits the concurrent files of all orders together, because each one needs memory. */
  readonly slots: Slots;
}

/** An uploaded file. The eTag is absent if the store has none. */
interface Uploaded {
  readonly name: string;
  readonly bytes: number;
  readonly eTag: string | undefined;
}

/** Uploads all files, then the manifest. The first failure stops the rest. */
export async function upload(
  order: Omit<UploadOrder, 'stores'>,
  { store: openStore, slots }: UploadDeps,
): Promise<string | undefined> {
  const { directory, files, attempt, resumed, manifest } = order;
  if (manifest && files.length > MAX_MANIFEST_FILES) throw tooMany(files.length);
  const stopping = new AbortController();
  const { signal } = stopping;
  const failures: StagingError[] = [];
  const uploaded: Uploaded[] = [];

  const uploadOne = async ({ name, to }: PlannedUpload) => {
    if (signal.aborted) return;
    try {
      const store = await openStore(to.store);
      const there = resumed ? await store.written(to, signal) : undefined;
      if (there?.attempt === attempt) {
        uploaded.push({ name, ...there });
        return;
      }
      await using output = await openOutput(directory, name);
      const eTag = await withRetries(() => store.write(to, output, attempt, signal), signal);
      uploaded.push({ name, bytes: output.bytes, eTag });
    } catch (cause) {
      failures.push(failure(`the output "${name}"`, to, cause));
      stopping.abort();
    }
  };

  await Promise.all(files.map((file) => slots.use(() => uploadOne(file))));
  if (failures[0]) throw failures[0];
  if (!manifest) return undefined;
  try {
    const list = writeManifest(toManifestFiles(uploaded));
    const store = await openStore(manifest.store);
    await withRetries(() => store.write(manifest, toOutputFile(list), attempt, signal));
    return hash('sha256', list);
  } catch (cause) {
    throw failure('the manifest of the outputs', manifest, cause);
  }
}

/** One entry for each name: a file that was uploaded to several places is the same in all of them. */
function toManifestFiles(uploaded: readonly Uploaded[]): ManifestFile[] {
  const entries = new Map<string, ManifestFile>();
  for (const { name, bytes, eTag } of uploaded) {
    if (eTag === undefined) throw new Error(`the store gave no eTag for "${name}"`);
    entries.set(name, { name, size: bytes, etag: eTag });
  }
  return [...entries.values()];
}

function failure(what: string, { store, bucket }: ObjectAt, cause: unknown): StagingError {
  const why = cause instanceof Error ? cause.message : String(cause);
  const where = bucket === '' ? store : `${store}, bucket "${bucket}"`;
  return new StagingError(codeFor(cause), `${what} could not be written to ${where}: ${why}`, { cause });
}

function codeFor(cause: unknown): StagingErrorCode {
  if (!(cause instanceof TransferError)) return 'output-failed';
  if (cause.full) return 'store-full';
  return cause.away ? 'store-away' : 'output-failed';
}

const tooMany = (count: number) =>
  new StagingError(
    'output-failed',
    `there are ${count} output files, but a delegated job can have at most ${MAX_MANIFEST_FILES}: pack them into an archive`,
  );
