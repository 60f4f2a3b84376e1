import { appendFileSync, constants, readFileSync } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { Slots } from '../../lib/concurrency.ts';
import type { ObjectAt } from '../../model/job/index.ts';
import { Connections } from '../transfers/connections.ts';
import { StagingError } from '../transfers/errors.ts';
import {
  openedStores,
  openOutput,
  type RemoteStore,
  retried,
  type StoreOpener,
  type WrittenObject,
} from '../transfers/remote-store.ts';
import type { UploadPlan } from '../transfers/staging.ts';
import type { Keys } from './keys.ts';
import type { SharedParts } from './layout.ts';
import { storeOpener } from './open-stores.ts';
import type { PodOrders, PodStores } from './orders.ts';
import { messageOf } from './result.ts';
import { KeysMissing, writeUrl } from './url-store.ts';

interface Delivery {
  readonly orders: PodOrders;
  readonly parts: SharedParts;
  readonly keys: Keys;
  readonly tell: (notice: string) => void;
  /** Nothing is tried again when it aborts; what is on its way goes on. */
  readonly patient: AbortSignal;
  /** Everything stops when it aborts. */
  readonly signal: AbortSignal;
}

export interface Delivered {
  /** SHA-256 of the manifest. */
  readonly manifest?: string;
  readonly answered?: boolean;
}

/** Milliseconds between two tries to deliver; each pause is twice the one before. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 30_000;

/** Files on their way at once: each one needs memory, up to three parts of 5 MiB. */
const FILES_AT_ONCE = 6;

/** Notes that are worth the room in a log. */
const NOTES = 100;

/** Uploads what the script left, and then what its caller is answered. */
export async function deliverOutputs(delivery: Delivery): Promise<Delivered> {
  const { orders, parts } = delivery;
  const { outputs, manifest, answer } = orders;
  const output = await pin(parts.output);
  const connections = new Connections(orders.networks);
  try {
    const left = (await readdir(output.path)).length > 0;
    const digest =
      (left && outputs.length > 0) || manifest ? await uploadPatiently(output.path, delivery, connections) : undefined;
    const answered = left && answer && (await putAnswer(output.path, delivery, connections));
    return { ...(digest !== undefined && { manifest: digest }), ...(answered && { answered }) };
  } finally {
    connections.close();
    await output.handle.close();
  }
}

/**
 * The output directory itself, whatever is put in its place from now on. A link in its place is not followed: it could lead
 * to our keys.
 */
async function pin(path: string): Promise<{ readonly path: string; readonly handle: FileHandle }> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    return { path: process.platform === 'linux' ? `/proc/self/fd/${handle.fd}` : path, handle };
  } catch (cause) {
    const message = `the output directory could not be read: ${messageOf(cause)}`;
    throw new StagingError('output-failed', message, { cause });
  }
}

/** Again and again, for as long as there is patience and nobody stops it. Resolves to the digest of the manifest. */
async function uploadPatiently(
  directory: string,
  delivery: Delivery,
  connections: Connections,
): Promise<string | undefined> {
  const { orders, parts, patient, tell } = delivery;
  const until = Date.now() + (orders.patience ?? 0);
  const { files, notes } = await planned(directory, orders);
  for (const note of notes.slice(0, NOTES)) tell(note);
  if (notes.length > NOTES) tell(`and ${notes.length - NOTES} more of such notes`);
  if (files.length === 0 && !orders.manifest) return undefined;
  const uploaded = new Uploaded(parts.uploaded, orders.attempt);
  for (let wait = FIRST_WAIT; ; wait = Math.min(2 * wait, LONGEST_WAIT)) {
    try {
      return await uploadAll(directory, files, uploaded, delivery, connections);
    } catch (error) {
      if (patient.aborted || Date.now() + wait > until) throw error;
      if (wait === FIRST_WAIT) tell(`the output is not delivered yet: ${messageOf(error)}`);
      await pause(wait, undefined, { signal: patient }).catch(() => undefined);
    }
  }
}

async function planned(directory: string, { outputs }: PodOrders): Promise<UploadPlan> {
  const { plan } = await import('../transfers/walk.ts');
  return plan(directory, outputs);
}

async function uploadAll(
  directory: string,
  files: UploadPlan['files'],
  uploaded: Uploaded,
  { orders, keys, tell, patient, signal }: Delivery,
  connections: Connections,
): Promise<string | undefined> {
  const { attempt, manifest } = orders;
  const { upload } = await import('../transfers/upload.ts');
  // Keys are renewed while files are on their way: each one begins with those that are there by then.
  const current = keys.current(async ({ stores }) => {
    if (stores.size === 0) throw new KeysMissing();
    const opener = await storeOpener(connections, stores.values());
    return openedStores(stores, uploaded.noting(opener, signal));
  });
  const means = { store: async (id: string) => (await current())(id), slots: new Slots(FILES_AT_ONCE) };
  const uploadNow = async () => {
    // Without keys nothing is begun.
    await current();
    const order = { directory, files, attempt, resumed: uploaded.any, ...(manifest && { manifest }) };
    return upload(order, means);
  };
  return keys.use(uploadNow, { signal: patient, progress: () => uploaded.arrived, tell });
}

/** False: there is no file to answer with. */
async function putAnswer(directory: string, delivery: Delivery, connections: Connections): Promise<boolean> {
  const { parts, keys, tell, patient, signal } = delivery;
  const { pack } = await import('../transfers/pack.ts');
  if (!(await pack(directory, parts.answer))) return false;
  const put = async ({ answer: url, verify }: PodStores) => {
    if (!url) throw new KeysMissing();
    await using file = await openOutput(parts.own, 'answer');
    const client = connections.client({ guarded: false, verify });
    await retried(() => writeUrl(url, file, client, signal), signal);
  };
  try {
    await keys.use(put, { signal: patient, tell });
    return true;
  } catch (cause) {
    throw new StagingError('output-failed', `the answer could not be kept: ${messageOf(cause)}`, { cause });
  }
}

type Line =
  | readonly [place: string]
  /** It has arrived. */
  | readonly [place: string, bytes: number, eTag: string];

/**
 * What one attempt has uploaded, kept in a file: a program that is killed and started again, or one that gets new keys,
 * uploads nothing twice that it knows to have arrived. Others would see it as a second file.
 */
class Uploaded {
  readonly #path: string;
  readonly #attempt: string;
  readonly #known = new Map<string, WrittenObject | 'in doubt'>();
  #arrived = 0;

  constructor(path: string, attempt: string) {
    this.#path = path;
    this.#attempt = attempt;
    for (const line of linesOf(path)) this.#take(line);
  }

  /** Has anything been tried before? */
  get any(): boolean {
    return this.#known.size > 0;
  }

  /** How much has arrived. */
  get arrived(): number {
    return this.#arrived;
  }

  /** The same stores, of which everything is noted. When the signal aborts, nothing more is written. */
  noting(openStore: StoreOpener, signal: AbortSignal): StoreOpener {
    return (access) => this.#noted(openStore(access), signal);
  }

  #noted(store: RemoteStore, stopped: AbortSignal): RemoteStore {
    return {
      read: (at, eTag) => store.read(at, eTag),
      write: async (at, file, attempt, signal) => {
        this.#note([placeOf(at)]);
        const eTag = await store.write(at, file, attempt, AbortSignal.any([signal, stopped]));
        if (eTag !== undefined) this.#note([placeOf(at), file.bytes, eTag]);
        return eTag;
      },
      written: async (at, signal) => {
        const known = this.#known.get(placeOf(at));
        // The store is asked only where it may know more: the keys are for writing, and most do not let anybody look.
        return known === 'in doubt' ? store.written(at, signal) : known;
      },
    };
  }

  #note(line: Line): void {
    this.#take(line);
    try {
      appendFileSync(this.#path, `${JSON.stringify(line)}\n`, { mode: 0o600 });
    } catch {
      // The script may have filled the disk. To upload something twice is better than not at all.
    }
  }

  #take([place, bytes, eTag]: Line): void {
    if (bytes === undefined || eTag === undefined) {
      this.#known.set(place, 'in doubt');
      return;
    }
    this.#known.set(place, { attempt: this.#attempt, bytes, eTag });
    this.#arrived++;
  }
}

const placeOf = ({ store, bucket, key }: ObjectAt) => JSON.stringify([store, bucket, key]);

function linesOf(path: string): Line[] {
  try {
    return readFileSync(path, 'utf8').split('\n').flatMap(lineOf);
  } catch {
    return [];
  }
}

/** One that was cut off says nothing, as if it had not been written. */
function lineOf(text: string): Line[] {
  try {
    return [JSON.parse(text) as Line];
  } catch {
    return [];
  }
}
