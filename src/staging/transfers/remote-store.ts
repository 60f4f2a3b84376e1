import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Agents,
  allowedAddresses,
  createAgents,
  HttpClient,
  type Network,
  toHttpClientError,
} from '../../lib/http/index.ts';
import { type BackoffLimits, backoffDelay } from '../../lib/retry.ts';
import type { ObjectAt, StoreAccess } from '../../model/job/index.ts';

/** Throws a {@link TransferError} if the access is invalid. */
export type StoreOpener = (access: StoreAccess) => RemoteStore;

/** One store with one set of keys. Every failure is a {@link TransferError}. */
export interface RemoteStore {
  /** With an eTag, only an object with this eTag, if the store supports eTags. */
  read(at: ObjectAt, eTag?: string): Promise<RemoteObject>;
  /**
   * Writes the file, with its writer as metadata if the store supports it. Resolves to its eTag, if the store has
   * eTags.
   */
  write(at: ObjectAt, file: OutputFile, by: Writer, signal: AbortSignal): Promise<string | undefined>;
  /** The object that an attempt wrote there; undefined if there is none, or if its attempt is unknown. */
  written(at: ObjectAt, signal: AbortSignal): Promise<WrittenObject | undefined>;
}

interface Writer {
  /** The metadata `oscar-attempt`. */
  readonly attempt: string;
  /** The metadata `oscar-input`. */
  readonly inputLabel?: string;
}

export interface WrittenObject {
  readonly attempt: string;
  readonly bytes: number;
  readonly eTag: string;
}

export interface RemoteObject {
  readonly body: Readable;
  /** The declared length. */
  readonly bytes: number | undefined;
  /** The host of the store. */
  readonly host: string;
}

/** A transfer failed. The message is the reason, as the end of a sentence. */
export class TransferError extends Error {
  /** Whether a retry may succeed. */
  readonly retryable: boolean;
  /** The store has no space now. */
  readonly full: boolean;
  /** The store cannot be used now. A retry may succeed, though perhaps only after a while. */
  readonly away: boolean;

  constructor(
    message: string,
    options: ErrorOptions & { readonly retryable: boolean; readonly full?: boolean; readonly away?: boolean },
  ) {
    super(message, options);
    this.full = options.full ?? false;
    this.away = options.away ?? options.retryable;
    this.name = 'TransferError';
    this.retryable = options.retryable;
  }
}

/** Answers of a store that cannot be used now. */
export const AWAY_STATUSES: readonly number[] = [429, 500, 502, 503, 504];

/** Insufficient Storage (RFC 4918 §11.5). */
export const FULL_STATUS = 507;

/** Parses the URL of a store from a configuration. */
export function readAddress(text: string): URL {
  const address = URL.canParse(text) ? new URL(text) : undefined;
  if (address?.protocol === 'http:' || address?.protocol === 'https:') return address;
  throw new TransferError(`"${text}" is not an address of a store`, { retryable: false });
}

export interface OutputFile extends AsyncDisposable {
  readonly bytes: number;
  /** Reads from the beginning, any number of times, up to the size that the file had when it was opened. */
  content(): Readable;
}

/** Bytes per read. Smaller blocks cost more reads, larger ones more memory for each file in transfer. */
const BLOCK = 256 * 1024;

/** Does not follow links and does not block on a pipe that replaced the file. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Opens a file of an output directory, and nothing outside of it: a process that the script left running could replace
 * a folder by a link after the listing.
 */
export async function openOutput(directory: string, name: string): Promise<OutputFile> {
  const path = join(directory, name);
  const handle = await open(path, FLAGS).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ELOOP' ? changedError() : new TransferError(cause.message, { cause, retryable: false });
  });
  try {
    const stat = await handle.stat();
    const expected = join(await realpath(directory), name);
    if (!stat.isFile() || (await resolvePath(handle, path)) !== expected) throw changedError();
    const content = () => Readable.from(blocks(handle, stat.size), { objectMode: false });
    return { bytes: stat.size, content, [Symbol.asyncDispose]: () => handle.close() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Bytes in memory as an output file. */
export function toOutputFile(bytes: Uint8Array): OutputFile {
  const content = () => Readable.from([bytes], { objectMode: false });
  return { bytes: bytes.length, content, [Symbol.asyncDispose]: async () => undefined };
}

/** Not a stream of the handle: destroying such a stream would close the handle and prevent a retry. */
async function* blocks(handle: FileHandle, bytes: number): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes; ) {
    const block = Buffer.allocUnsafe(Math.min(BLOCK, bytes - at));
    const { bytesRead } = await handle.read(block, 0, block.length, at);
    if (bytesRead === 0) throw new TransferError('the file became shorter while it was read', { retryable: false });
    at += bytesRead;
    yield block.subarray(0, bytesRead);
  }
}

const changedError = () => new TransferError('the file changed after it was listed', { retryable: false });

/** The path of the open file. On Linux from /proc; on other systems the path is checked again. */
async function resolvePath(handle: FileHandle, path: string): Promise<string | undefined> {
  if (process.platform === 'linux') return readlink(`/proc/self/fd/${handle.fd}`);
  const [opened, now] = await Promise.all([handle.stat(), lstat(path)]);
  return opened.ino === now.ino && opened.dev === now.dev ? realpath(path) : undefined;
}

/**
 * Milliseconds of silence after which a store counts as gone. With a shorter time, jobs fail if a store is busy; with a
 * longer one, a dead store delays them.
 */
export const STORE_IDLE = 60_000;

/** The failure of a request to a store. It may be retried if the connection was at fault. */
export function toTransferError(error: unknown, host: string): TransferError {
  const failure = toHttpClientError(error, host);
  const isExplained = failure && failure.code !== 'not-http' && failure.code !== 'aborted';
  const message = isExplained ? failure.message : `"${host}" does not answer like a store`;
  return new TransferError(message, { cause: error, retryable: failure?.isTransient === true });
}

/** Enough for a store that restarts within seconds. Longer outages are handled by retrying the delivery. */
const TRIES = 4;

/** Milliseconds between attempts. Random, because many jobs lose the same store at the same moment. */
const PAUSES: BackoffLimits = { first: 300, longest: 1_200 };

/** Repeats `work` after retryable errors. */
export async function withRetries<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof TransferError && error.retryable) || attempt === TRIES || signal?.aborted) throw error;
    }
    await pause(backoffDelay(attempt, PAUSES, Math.random()), undefined, signal ? { signal } : {});
  }
}

/** Opens each of these stores at its first use. */
export function lazyStores(
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

export interface Trust {
  /** A user chose the address, so it is checked against the allowed networks. */
  readonly guarded: boolean;
  /** Whether the certificate is verified. */
  readonly verify: boolean;
}

/**
 * The connections of this process, one pool for each kind of trust, so that later jobs reuse them: agents for the AWS
 * SDK, clients for everything else.
 */
export class Connections {
  readonly #networks: readonly Network[];
  readonly #agents = new Map<string, Agents>();
  readonly #clients = new Map<string, HttpClient>();

  constructor(networks: readonly Network[]) {
    this.#networks = networks;
  }

  agents(trust: Trust): Agents {
    return findOrCreate(this.#agents, trust, () => createAgents(this.#options(trust)));
  }

  client(trust: Trust): HttpClient {
    return findOrCreate(this.#clients, trust, () => new HttpClient(this.#options(trust)));
  }

  close(): void {
    for (const each of [...this.#agents.values(), ...this.#clients.values()]) each.close();
  }

  #options({ guarded, verify }: Trust) {
    return { verify, ...(guarded && { allowed: allowedAddresses(this.#networks) }) };
  }
}

function findOrCreate<T>(pools: Map<string, T>, { guarded, verify }: Trust, create: () => T): T {
  const key = `${guarded} ${verify}`;
  const pool = pools.get(key) ?? create();
  pools.set(key, pool);
  return pool;
}
