import { appendFileSync, constants, readFileSync } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../lib/concurrency.ts';
import { backoffDelay } from '../../lib/retry.ts';
import type { ObjectAt } from '../../model/job/index.ts';
import { StagingError, storePatience } from '../transfers/errors.ts';
import {
  Connections,
  lazyStores,
  openOutput,
  type RemoteStore,
  type StoreOpener,
  type WrittenObject,
  withRetries,
} from '../transfers/remote-store.ts';
import type { UploadPlan } from '../transfers/staging.ts';
import type { Keys } from './keys.ts';
import type { SharedParts } from './layout.ts';
import { storeOpener } from './open-stores.ts';
import type { PodOrders, PodStores } from './orders.ts';
import { errorMessage } from './result.ts';
import { KeysMissing, writeUrl } from './url-store.ts';

interface Delivery {
  readonly orders: PodOrders;
  readonly parts: SharedParts;
  readonly keys: Keys;
  readonly notify: (notice: string) => void;
  /** When it aborts, nothing is retried, but running uploads continue. */
  readonly retrySignal: AbortSignal;
  /** When it aborts, everything stops. */
  readonly signal: AbortSignal;
}

export interface Delivered {
  /** SHA-256 of the manifest. */
  readonly manifest?: string;
  readonly answered?: boolean;
}

/** Milliseconds between two attempts to deliver; each pause is twice the previous one. */
const RETRY = { first: 500, longest: 30_000 };

/** Concurrent uploads. More need more memory, up to three parts of 5 MiB each; fewer make small files slower. */
const FILES_AT_ONCE = 6;

/** How many notes are logged. */
const NOTES = 100;

/** Uploads the output of the script, then the answer for a synchronous caller. */
export async function deliverOutputs(delivery: Delivery): Promise<Delivered> {
  const { orders, parts } = delivery;
  const { outputs, manifest, answer } = orders;
  const output = await openDirectory(parts.output);
  const connections = new Connections(orders.networks);
  try {
    const left = (await readdir(output.path)).length > 0;
    const digest =
      (left && outputs.length > 0) || manifest
        ? await uploadWithRetries(output.path, delivery, connections)
        : undefined;
    const answered = left && answer && (await putAnswer(output.path, delivery, connections));
    return { ...(digest !== undefined && { manifest: digest }), ...(answered && { answered }) };
  } finally {
    connections.close();
    await output.handle.close();
  }
}

/**
 * Opens the output directory, so that later replacements have no effect. A link in its place is not followed: it could
 * point to our keys.
 */
async function openDirectory(path: string): Promise<{ readonly path: string; readonly handle: FileHandle }> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    return { path: process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : path, handle };
  } catch (cause) {
    const message = `the output directory could not be read: ${errorMessage(cause)}`;
    throw new StagingError('output-failed', message, { cause });
  }
}

/** Retries until `orders.patience` is over or the job is stopped. Resolves to the digest of the manifest. */
async function uploadWithRetries(
  directory: string,
  delivery: Delivery,
  connections: Connections,
): Promise<string | undefined> {
  const { orders, parts, retrySignal, notify } = delivery;
  const began = Date.now();
  const { files, notes } = await planUploads(directory, orders);
  for (const note of notes.slice(0, NOTES)) notify(note);
  if (notes.length > NOTES) notify(`and ${notes.length - NOTES} more notes`);
  if (files.length === 0 && !orders.manifest) return undefined;
  const uploaded = new UploadJournal(parts.uploaded, orders.attempt);
  for (let failures = 1; ; failures++) {
    try {
      return await uploadAll(directory, files, uploaded, delivery, connections);
    } catch (error) {
      const wait = backoffDelay(failures, RETRY);
      const patience = storePatience(error) || (orders.patience ?? 0);
      if (retrySignal.aborted || Date.now() + wait > began + patience) throw error;
      if (failures === 1) notify(`the output is not delivered yet: ${errorMessage(error)}`);
      await pause(wait, undefined, { signal: retrySignal }).catch(() => undefined);
    }
  }
}

async function planUploads(directory: string, { outputs }: PodOrders): Promise<UploadPlan> {
  const { plan } = await import('../transfers/upload.ts');
  return plan(directory, outputs);
}

async function uploadAll(
  directory: string,
  files: UploadPlan['files'],
  uploaded: UploadJournal,
  { orders, keys, notify, retrySignal, signal }: Delivery,
  connections: Connections,
): Promise<string | undefined> {
  const { attempt, inputLabel, manifest } = orders;
  const { upload } = await import('../transfers/upload.ts');
  // Keys may be renewed during the uploads: each file is uploaded with the current ones.
  const current = keys.current(async ({ stores }) => {
    if (stores.size === 0) throw new KeysMissing();
    const opener = await storeOpener(connections, stores.values());
    return lazyStores(stores, uploaded.recording(opener, signal));
  });
  const means = { store: async (id: string) => (await current())(id), slots: new Slots(FILES_AT_ONCE) };
  const uploadNow = async () => {
    // Throws if there are no keys, before any upload starts.
    await current();
    const label = inputLabel === undefined ? {} : { inputLabel };
    const order = { directory, files, attempt, resumed: uploaded.any, ...label, ...(manifest && { manifest }) };
    return upload(order, means);
  };
  return keys.use(uploadNow, { signal: retrySignal, progress: () => uploaded.arrived, notify });
}

/** Resolves to false if there is no output file to answer with. */
async function putAnswer(directory: string, delivery: Delivery, connections: Connections): Promise<boolean> {
  const { parts, keys, notify, retrySignal, signal } = delivery;
  const { pack } = await import('../transfers/pack.ts');
  if (!(await pack(directory, parts.answer))) return false;
  const put = async ({ answer: url, verify }: PodStores) => {
    if (!url) throw new KeysMissing();
    await using file = await openOutput(parts.own, 'answer');
    const client = connections.client({ guarded: false, verify });
    await withRetries(() => writeUrl(url, file, client, signal), signal);
  };
  try {
    await keys.use(put, { signal: retrySignal, notify });
    return true;
  } catch (cause) {
    throw new StagingError('output-failed', `the answer could not be stored: ${errorMessage(cause)}`, { cause });
  }
}

type JournalLine =
  | readonly [place: string]
  /** The upload succeeded. */
  | readonly [place: string, bytes: number, eTag: string];

/**
 * The uploads of one attempt, recorded in a file. After a restart, or with new keys, the program does not repeat
 * uploads that succeeded: each would cause another event in the store.
 */
class UploadJournal {
  readonly #path: string;
  readonly #attempt: string;
  readonly #known = new Map<string, WrittenObject | 'in doubt'>();
  #arrived = 0;

  constructor(path: string, attempt: string) {
    this.#path = path;
    this.#attempt = attempt;
    for (const line of readJournal(path)) this.#take(line);
  }

  /** Whether any upload was started before. */
  get any(): boolean {
    return this.#known.size > 0;
  }

  /** The number of uploads that succeeded. */
  get arrived(): number {
    return this.#arrived;
  }

  /** Wraps stores so that their uploads are recorded. When the signal aborts, uploads stop. */
  recording(openStore: StoreOpener, signal: AbortSignal): StoreOpener {
    return (access) => this.#noted(openStore(access), signal);
  }

  #noted(store: RemoteStore, stopped: AbortSignal): RemoteStore {
    return {
      read: (at, eTag) => store.read(at, eTag),
      write: async (at, file, by, signal) => {
        this.#note([objectId(at)]);
        const eTag = await store.write(at, file, by, AbortSignal.any([signal, stopped]));
        if (eTag !== undefined) this.#note([objectId(at), file.bytes, eTag]);
        return eTag;
      },
      written: async (at, signal) => {
        const known = this.#known.get(objectId(at));
        // Asks the store only if the result is unknown: the keys are for writing, and most of them cannot read.
        return known === 'in doubt' ? store.written(at, signal) : known;
      },
    };
  }

  #note(line: JournalLine): void {
    this.#take(line);
    try {
      appendFileSync(this.#path, `${JSON.stringify(line)}\n`, { mode: 0o600 });
    } catch {
      // The script may have filled the disk. Uploading a file twice is better than not at all.
    }
  }

  #take([place, bytes, eTag]: JournalLine): void {
    if (bytes === undefined || eTag === undefined) {
      this.#known.set(place, 'in doubt');
      return;
    }
    this.#known.set(place, { attempt: this.#attempt, bytes, eTag });
    this.#arrived++;
  }
}

const objectId = ({ store, bucket, key }: ObjectAt) => JSON.stringify([store, bucket, key]);

function readJournal(path: string): JournalLine[] {
  try {
    return readFileSync(path, 'utf8').split('\n').flatMap(parseJournalLine);
  } catch {
    return [];
  }
}

/** An incomplete line is ignored. */
function parseJournalLine(text: string): JournalLine[] {
  try {
    return [JSON.parse(text) as JournalLine];
  } catch {
    return [];
  }
}
