import type { ObjectAt, StageOut } from './attempt.ts';

/** A file that an attempt has uploaded, with its name relative to the output directory. */
export interface ManifestFile {
  readonly name: string;
  readonly size: number;
  /** The eTag of the store, without quotes. */
  readonly etag: string;
}

/** A target fails an attempt with more output files, because the origin holds the list in memory to commit it. */
export const MAX_MANIFEST_FILES = 100_000;

/** Enough for that many files with names of 200 bytes. A larger manifest is rejected. */
export const MAX_MANIFEST_BYTES = 32 * 1024 * 1024;

/** Limits of S3 for a key, and of file systems for each part of a path. */
const LONGEST_NAME = 1024;
const LONGEST_PART = 255;

/** The manifest, sorted by the bytes of the names, so that the same files give the same bytes. */
export function writeManifest(files: readonly ManifestFile[]): Uint8Array {
  const sorted = files
    .map(({ name, size, etag }) => ({ file: { name, size, etag }, order: Buffer.from(name) }))
    .toSorted((a, b) => Buffer.compare(a.order, b.order))
    .map(({ file }) => file);
  return Buffer.from(JSON.stringify({ version: 1, files: sorted }));
}

/** The files of a manifest, or what is wrong with it as the end of a sentence. It comes from another cluster and is not trusted. */
export function readManifest(bytes: Uint8Array): readonly ManifestFile[] | string {
  const document = parsed(bytes);
  if (!hasExactly(document, ['version', 'files'])) return 'it is no list of files';
  if (document['version'] !== 1) return `its version is ${JSON.stringify(document['version'])}, and only 1 is known`;
  const files: unknown = document['files'];
  if (!Array.isArray(files)) return 'it is no list of files';
  if (files.length > MAX_MANIFEST_FILES)
    return `it has ${files.length} files, and at most ${MAX_MANIFEST_FILES} are taken`;
  const names = new Set<string>();
  for (const [index, file] of files.entries()) {
    const wrong = isFile(file) ? nameProblem(file.name) : 'is none';
    if (wrong) return `its file ${index} ${wrong}`;
    if (names.has(file.name)) return `it has ${JSON.stringify(file.name)} twice`;
    names.add(file.name);
  }
  return files;
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function hasExactly(value: unknown, keys: readonly string[]): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const own = Object.keys(value);
  return own.length === keys.length && keys.every((key) => own.includes(key));
}

function isFile(value: unknown): value is ManifestFile {
  if (!hasExactly(value, ['name', 'size', 'etag'])) return false;
  const { name, size, etag } = value;
  return (
    typeof name === 'string' &&
    typeof size === 'number' &&
    Number.isSafeInteger(size) &&
    size >= 0 &&
    typeof etag === 'string' &&
    /^[\x21\x23-\x7e]{1,128}$/.test(etag)
  );
}

/** A name becomes part of a key, and possibly of a path: it must not escape its folder. */
function nameProblem(name: string): string | undefined {
  if (!name.isWellFormed() || name.includes('\0')) return 'has a name that is no text';
  if (Buffer.byteLength(name) > LONGEST_NAME) return `has a name of more than ${LONGEST_NAME} bytes`;
  const parts = name.split('/');
  if (parts.some((part) => Buffer.byteLength(part) > LONGEST_PART)) return 'has a name that no file can have';
  const leads = parts.some((part) => part === '' || part === '.' || part === '..');
  return leads ? `has the name ${JSON.stringify(name)}, which is no relative path` : undefined;
}

/** A file of an output directory and one of its destinations. */
export interface PlannedUpload {
  /** Relative to the output directory. */
  readonly name: string;
  readonly bytes: number;
  readonly to: ObjectAt;
}

export interface AssignedOutputs {
  readonly files: readonly PlannedUpload[];
  /** Which files were left out and why, one sentence each. */
  readonly notes: readonly string[];
}

/** The limit of S3. A note is clearer than its error. */
const LONGEST_KEY = 1024;

/** Assigns every file to every output whose filters match (docs/go-manager.md#events-and-scripts). */
export function assignOutputs(
  files: readonly Pick<PlannedUpload, 'name' | 'bytes'>[],
  outputs: readonly StageOut[],
): AssignedOutputs {
  const planned = new Map<string, PlannedUpload>();
  const notes: string[] = [];
  for (const { name, bytes } of files) {
    for (const output of outputs.filter((each) => matches(name, each))) {
      const { store, bucket, folder } = output;
      const to = { store, bucket, key: folder === '' ? name : `${folder}/${name}` };
      if (Buffer.byteLength(to.key) > LONGEST_KEY) {
        notes.push(`"${name}" is left out: its key in ${store} would be longer than ${LONGEST_KEY} bytes`);
        continue;
      }
      // Two outputs may have the same destination; upload the file once.
      planned.set(JSON.stringify([store, bucket, to.key]), { name, bytes, to });
    }
  }
  return { files: [...planned.values()], notes };
}

function matches(name: string, { prefix, suffix }: StageOut): boolean {
  return (
    (prefix.length === 0 || prefix.some((each) => name.startsWith(each))) &&
    (suffix.length === 0 || suffix.some((each) => name.endsWith(each)))
  );
}
