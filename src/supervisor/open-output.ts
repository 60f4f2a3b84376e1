import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { TransferError } from './remote-store.ts';

export interface OutputFile extends AsyncDisposable {
  readonly bytes: number;
  /** From the beginning, as often as somebody wants it, and as much as there was when it was opened. */
  content(): Readable;
}

/** Read at once. Smaller: more trips to the disk. Larger: more memory for each file that is on its way. */
const BLOCK = 256 * 1024;

/** Not through a link, and without waiting at a pipe that took the file's place. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Opens a file of an output directory, and nothing else: what the script left running could put a link in the place of a
 * folder after it was listed.
 */
export async function openOutput(directory: string, name: string): Promise<OutputFile> {
  const path = join(directory, name);
  const handle = await open(path, FLAGS).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ELOOP' ? changed() : new TransferError(cause.message, { cause, retryable: false });
  });
  try {
    const stat = await handle.stat();
    const expected = join(await realpath(directory), name);
    if (!stat.isFile() || (await placeOf(handle, path)) !== expected) throw changed();
    const content = () => Readable.from(blocks(handle, stat.size), { objectMode: false });
    return { bytes: stat.size, content, [Symbol.asyncDispose]: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** What was never on a disk, as if it were. */
export function fileOfBytes(bytes: Uint8Array): OutputFile {
  const content = () => Readable.from([bytes], { objectMode: false });
  return { bytes: bytes.length, content, [Symbol.asyncDispose]: async () => undefined };
}

/** Not a stream of the handle: one that is destroyed takes the handle with it, and then there is no second try. */
async function* blocks(handle: FileHandle, bytes: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes; ) {
    const block = Buffer.allocUnsafe(Math.min(BLOCK, bytes - at));
    const { bytesRead } = await handle.read(block, 0, block.length, at);
    if (bytesRead === 0) throw new TransferError('it became shorter while it was read', { retryable: false });
    at += bytesRead;
    yield block.subarray(0, bytesRead);
  }
}

const changed = () => new TransferError('it changed after it was listed', { retryable: false });

/** Where the open file lies. Linux knows; elsewhere the path is looked at once more. */
async function placeOf(handle: FileHandle, path: string): Promise<string | undefined> {
  if (process.platform === 'linux') return readlink(`/proc/self/fd/${handle.fd}`);
  const [opened, now] = await Promise.all([handle.stat(), lstat(path)]);
  return opened.ino === now.ino && opened.dev === now.dev ? realpath(path) : undefined;
}
