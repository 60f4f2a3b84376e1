import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { assignOutputs, type StageOut } from '../../model/job/index.ts';
import { StagingError } from './errors.ts';
import type { UploadPlan } from './staging.ts';

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
