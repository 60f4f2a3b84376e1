import { hash } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import type { Slots } from '../../lib/concurrency.ts';
import {
  assignOutputs,
  MAX_MANIFEST_FILES,
  type ManifestFile,
  type ObjectAt,
  type PlannedUpload,
  type StageOut,
  writeManifest,
} from '../../model/job/index.ts';
import { StagingError, type StagingErrorCode } from './errors.ts';
import { openOutput, type RemoteStore, TransferError, toOutputFile, withRetries } from './remote-store.ts';
import type { UploadOrder, UploadPlan } from './staging.ts';

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
  const { directory, files, attempt, inputLabel, resumed, manifest } = order;
  const by = { attempt, ...(inputLabel !== undefined && { inputLabel }) };
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
      const eTag = await withRetries(() => store.write(to, output, by, signal), signal);
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
    await withRetries(() => store.write(manifest, toOutputFile(list), by, signal));
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

export interface FoundFile {
  /** Relative to the directory, with `/`. */
  readonly name: string;
  readonly bytes: number;
}

interface Walk {
  /** By name. */
  readonly files: readonly FoundFile[];
  /** What was skipped and why, a sentence each. */
  readonly notes: readonly string[];
}

/** The regular files below a directory. Links are not followed: they could expose files that only we may read. */
export async function walk(directory: string): Promise<Walk> {
  const files: FoundFile[] = [];
  const notes: string[] = [];
  const folders = [''];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const entry of await readEntries(directory, folder)) {
      const last = utf8(entry.name);
      if (last === undefined) {
        notes.push(`${shown(folder, entry.name)} is left out: its name is not UTF-8`);
        continue;
      }
      const name = joined(folder, last);
      if (entry.isDirectory()) folders.push(name);
      else if (entry.isFile()) files.push({ name, bytes: (await lstat(`${directory}/${name}`)).size });
      else notes.push(`"${name}" is left out: it is ${describeKind(entry)}`);
    }
  }
  files.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { files, notes: notes.toSorted() };
}

async function readEntries(directory: string, folder: string): Promise<Dirent<Buffer>[]> {
  try {
    return await readdir(`${directory}/${folder}`, { withFileTypes: true, encoding: 'buffer' });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const which = folder === '' ? 'the output directory' : `the folder "${folder}" of the output directory`;
    throw new StagingError('output-failed', `${which} could not be read: ${why}`, { cause });
  }
}

function joined(folder: string, last: string): string {
  // A directory never lists these. If one did, a key could leave its folder.
  if (last === '' || last === '.' || last === '..' || last.includes('/')) throw new Error('a directory lists a path');
  return folder === '' ? last : `${folder}/${last}`;
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

const shown = (folder: string, last: Buffer) => JSON.stringify(joined(folder, last.toString('latin1')));

function describeKind(entry: Dirent<Buffer>): string {
  if (entry.isSymbolicLink()) return 'a symbolic link';
  if (entry.isFIFO()) return 'a named pipe';
  if (entry.isSocket()) return 'a socket';
  return 'a device';
}

/** Assigns the files of an output directory to outputs. */
export async function plan(directory: string, outputs: readonly StageOut[]): Promise<UploadPlan> {
  const found = await walk(directory);
  const { files, notes } = assignOutputs(found.files, outputs);
  return { files, notes: [...found.notes, ...notes] };
}
