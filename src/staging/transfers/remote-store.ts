import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { toHttpClientError } from '../../lib/http/index.ts';
import type { ObjectAt, StoreAccess } from '../../model/job/index.ts';

/** Throws a {@link TransferError} when the access makes no sense. */
export type StoreOpener = (access: StoreAccess) => RemoteStore;

/** One store with one set of keys. Every failure is a {@link TransferError}. */
export interface RemoteStore {
  /** With an eTag: that very object, where the store knows eTags. */
  read(at: ObjectAt, eTag?: string): Promise<RemoteObject>;
  /**
   * Writes the whole file, marked with the attempt that made it where the store can keep such a mark. Resolves to its
   * eTag, where the store has them.
   */
  write(at: ObjectAt, file: OutputFile, attempt: string, signal: AbortSignal): Promise<string | undefined>;
  /** What an attempt wrote there; undefined when there is nothing, or when nobody can say who wrote it. */
  written(at: ObjectAt, signal: AbortSignal): Promise<WrittenObject | undefined>;
}

export interface WrittenObject {
  readonly attempt: string;
  readonly bytes: number;
  readonly eTag: string;
}

export interface RemoteObject {
  readonly body: Readable;
  /** As announced. */
  readonly bytes: number | undefined;
  /** Host that it comes from. */
  readonly host: string;
}

/** A transfer did not happen. The message says why, in words that end a sentence. */
export class TransferError extends Error {
  /** May it go better in a moment? */
  readonly retryable: boolean;

  constructor(message: string, options: ErrorOptions & { readonly retryable: boolean }) {
    super(message, options);
    this.name = 'TransferError';
    this.retryable = options.retryable;
  }
}

/** The address of a store as somebody wrote it. */
export function readAddress(text: string): URL {
  const address = URL.canParse(text) ? new URL(text) : undefined;
  if (address?.protocol === 'http:' || address?.protocol === 'https:') return address;
  throw new TransferError(`"${text}" is not an address of a store`, { retryable: false });
}

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

/** Milliseconds of silence after which a store counts as gone. Shorter: a busy store loses jobs. Longer: a dead one delays them. */
export const STORE_IDLE = 60_000;

/** The failure of a request to a store. It may be retried if the connection was at fault. */
export function toTransferError(error: unknown, host: string): TransferError {
  const failure = toHttpClientError(error, host);
  const isExplained = failure && failure.code !== 'not-http' && failure.code !== 'aborted';
  const message = isExplained ? failure.message : `"${host}" does not answer like a store`;
  return new TransferError(message, { cause: error, retryable: failure?.isTransient === true });
}

/** A store that restarts is back after some seconds; one that is away for longer is the job's affair, which is tried again. */
const TRIES = 4;

/** Before the second try; twice as long before each further one. */
const FIRST_PAUSE = 200;

/** Does it again after failures that may pass. */
export async function retried<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof TransferError && error.retryable) || attempt === TRIES || signal?.aborted) throw error;
    }
    // Many jobs lose the same store at the same moment: they shall not all come back at the same moment.
    await pause(FIRST_PAUSE * 2 ** (attempt - 1) * (0.5 + Math.random()), undefined, signal ? { signal } : {});
  }
}

/** Opens each of these stores when it is first asked for. */
export function openedStores(
  stores: ReadonlyMap<string, StoreAccess>,
  openStore: StoreOpener,
): (id: string) => RemoteStore {
  const opened = new Map<string, RemoteStore>();
  return (id) => {
    const access = stores.get(id);
    if (!access) throw new Error('there are no keys for this store');
    const store = opened.get(id) ?? openStore(access);
    opened.set(id, store);
    return store;
  };
}
