import { hash } from 'node:crypto';
import type { Slots } from '../../lib/concurrency.ts';
import {
  MAX_MANIFEST_FILES,
  type ManifestFile,
  type ObjectAt,
  type PlannedUpload,
  writeManifest,
} from '../../model/job/index.ts';
import { StagingError } from './errors.ts';
import { fileOfBytes, openOutput, type RemoteStore, retried } from './remote-store.ts';
import type { UploadOrder } from './staging.ts';

export interface UploadMeans {
  /** The store of that name, with the keys that are good now: asked for each file. Rejects where there are no keys. */
  readonly store: (id: string) => Promise<RemoteStore>;
  /** How many files are on their way at once, of all orders together: each one needs memory. */
  readonly slots: Slots;
}

/** What has arrived. The eTag is absent where the store has none. */
interface Uploaded {
  readonly name: string;
  readonly bytes: number;
  readonly eTag: string | undefined;
}

/** Uploads everything, and last the list of it; the first failure stops the rest. */
export async function upload(
  order: Omit<UploadOrder, 'stores'>,
  { store: storeOf, slots }: UploadMeans,
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
      const store = await storeOf(to.store);
      const there = resumed ? await store.written(to, signal) : undefined;
      if (there?.attempt === attempt) {
        uploaded.push({ name, ...there });
        return;
      }
      await using output = await openOutput(directory, name);
      const eTag = await retried(() => store.write(to, output, attempt, signal), signal);
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
    const list = writeManifest(entriesOf(uploaded));
    const store = await storeOf(manifest.store);
    await retried(() => store.write(manifest, fileOfBytes(list), attempt, signal));
    return hash('sha256', list);
  } catch (cause) {
    throw failure('the list of the outputs', manifest, cause);
  }
}

/** One for each name: a file that went to several places is the same in all of them. */
function entriesOf(uploaded: readonly Uploaded[]): ManifestFile[] {
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
  return new StagingError('output-failed', `${what} could not be written to ${where}: ${why}`, { cause });
}

const tooMany = (count: number) =>
  new StagingError(
    'output-failed',
    `there are ${count} output files, and at most ${MAX_MANIFEST_FILES} can be handed over: pack them into an archive`,
  );
