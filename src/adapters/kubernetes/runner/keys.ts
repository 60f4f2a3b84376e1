import { setTimeout as pause } from 'node:timers/promises';
import { backoffDelay } from '../../../lib/retry.ts';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt, StoreAccess } from '../../../model/job/index.ts';
import { type BlobStore, isUnavailable } from '../../../ports/index.ts';
import { writeStores } from '../../../staging/index.ts';
import { blobKey, isInputInBlobStore } from './place.ts';

export interface KeyOptions {
  readonly blobs: BlobStore;
  /** Whether the certificate of the blob store is verified. */
  readonly verifyBlobStore: boolean;
  /** Lifetime of presigned addresses, and the longest of keys. They are renewed at half of the shortest lifetime. */
  readonly keyMs: number;
}

/** The keys file of a pod that needs no keys, or does not have them yet. */
export const NO_KEYS = writeStores({ stores: new Map(), verify: true });

/** How long the creation of a record waits for keys, which saves a second write. A longer wait delays the start. */
export const KEYS_SOON_MS = 1_000;

/** The shortest time between two renewals, for stores with very short keys or a clock that is ahead. */
const SHORTEST_MS = 30_000;

/** Back-off after a store did not issue keys. */
const RETRY = { first: 500, longest: 30_000 };

const needsStores = ({ input, outputs, manifest }: Attempt) =>
  input.kind === 'object' || outputs.length > 0 || manifest !== undefined;

/** The store keys of one attempt, in the format that its pod reads. They are requested at once and renewed before they expire. */
export class PodKeys {
  readonly #attempt: Attempt;
  readonly #namespace: string;
  readonly #options: KeyOptions;
  #requested: Promise<string> | undefined;
  #given: string | undefined;
  #problem: string | undefined;
  #isAway = false;
  /** Lifetime of the last keys when they were issued. */
  #lifeMs: number;

  constructor(attempt: Attempt, namespace: string, options: KeyOptions) {
    this.#attempt = attempt;
    this.#namespace = namespace;
    this.#options = options;
    this.#lifeMs = options.keyMs;
  }

  get needed(): boolean {
    return needsStores(this.#attempt) || this.#attempt.answer || isInputInBlobStore(this.#attempt);
  }

  /** Whether the pod cannot even begin without keys. */
  get neededAtStart(): boolean {
    return this.#attempt.input.kind === 'object' || isInputInBlobStore(this.#attempt);
  }

  /** The last keys. */
  get given(): string | undefined {
    return this.needed ? this.#given : NO_KEYS;
  }

  /** Why there are no keys yet. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Why there will be no keys; undefined while the store is only unavailable. */
  get refusal(): string | undefined {
    return this.#isAway ? undefined : this.#problem;
  }

  /** The first keys, if they arrive within this time. */
  async firstWithin(milliseconds: number): Promise<string | undefined> {
    if (!this.needed) return NO_KEYS;
    const late = new AbortController();
    const asked = this.#request().catch(() => undefined);
    const given = await Promise.race([asked, pause(milliseconds, undefined, { signal: late.signal }).catch(() => {})]);
    late.abort();
    this.#given = given ?? undefined;
    return this.#given;
  }

  /** Renews the keys until the signal aborts, and calls `write` with new ones. Never rejects. */
  async keepRenewed(
    write: (keys: string) => Promise<void>,
    report: (problem: unknown) => void,
    signal: AbortSignal,
  ): Promise<void> {
    let written = this.#given;
    for (let failures = 0; this.needed && !signal.aborted; ) {
      let wait: number;
      try {
        const keys = await this.#request();
        wait = this.#lifeMs / 2;
        if (signal.aborted) return;
        this.#given = keys;
        if (keys !== written) await write(keys);
        written = keys;
        failures = 0;
      } catch (problem) {
        this.#problem = problem instanceof Error ? problem.message : String(problem);
        this.#isAway = isUnavailable(problem);
        report(problem);
        wait = backoffDelay(++failures, RETRY, Math.random());
      }
      this.#requested = undefined;
      // The longest delay of a timer.
      await pause(Math.min(wait, 2 ** 31 - 1), undefined, { signal }).catch(() => undefined);
    }
  }

  #request(): Promise<string> {
    this.#requested ??= this.#fetch();
    return this.#requested;
  }

  async #fetch(): Promise<string> {
    const { blobs, verifyBlobStore, keyMs } = this.#options;
    const { name, answer } = this.#attempt;
    const at = (what: string) => blobKey(this.#namespace, name, what);
    const seconds = Math.ceil(keyMs / 1_000);
    const [stores, toGet, toPut] = await Promise.all([
      needsStores(this.#attempt) ? this.#attempt.stores() : new Map(),
      isInputInBlobStore(this.#attempt) ? blobs.urlToGet(at('input'), seconds) : undefined,
      answer ? blobs.urlToPut(at('answer'), seconds) : undefined,
    ]);
    this.#lifeMs = keyLifetime(stores, keyMs, Date.now());
    return writeStores({
      stores,
      verify: verifyBlobStore,
      ...(toGet !== undefined && { input: new Secret(toGet) }),
      ...(toPut !== undefined && { answer: new Secret(toPut) }),
    });
  }
}

/** The lifetime of keys that are issued now: that of the store with the shortest. */
export function keyLifetime(stores: ReadonlyMap<string, StoreAccess>, keyMs: number, now: number): number {
  const ends = [...stores.values()].map((access) => (access.type === 's3' ? access.expiresAt : undefined));
  const shortest = Math.min(keyMs, ...ends.filter((end) => end !== undefined).map((end) => end - now));
  return Math.max(shortest, Math.min(keyMs, 2 * SHORTEST_MS));
}
