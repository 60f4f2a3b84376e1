import { setTimeout as pause } from 'node:timers/promises';
import { backOff } from '../../../lib/retry.ts';
import { Secret } from '../../../lib/secret.ts';
import type { Attempt, StoreAccess } from '../../../model/job/index.ts';
import { type BlobStore, isUnavailable } from '../../../ports/index.ts';
import { writeStores } from '../../../staging/index.ts';
import { blobKey, isInputInBlobStore } from './place.ts';

export interface KeyOptions {
  readonly blobs: BlobStore;
  /** Is the certificate of the blobs's addresses looked at? */
  readonly verifyBlobStore: boolean;
  /** How long addresses on the blobs work, and keys at most. They are renewed at half of what the shortest has. */
  readonly keyMs: number;
}

/** A pod that needs no keys has these; so has one that must wait for them. */
export const NO_KEYS = writeStores({ stores: new Map(), verify: true });

/** How long keys are waited for before the record is made without: with them it need not be written twice. */
export const KEYS_SOON_MS = 1_000;

/** Keys that a store gives for less than twice as long, or a clock that is ahead: it is not asked more often for that. */
const SHORTEST_MS = 30_000;

/** After a store did not give keys. */
const RETRY = { first: 500, longest: 30_000 };

const needsStores = ({ input, outputs, manifest }: Attempt) =>
  input.kind === 'object' || outputs.length > 0 || manifest !== undefined;

/** What opens the stores of one attempt, as its pod reads it: asked for at once, and again before it expires. */
export class PodKeys {
  readonly #attempt: Attempt;
  readonly #namespace: string;
  readonly #options: KeyOptions;
  #requested: Promise<string> | undefined;
  #given: string | undefined;
  #problem: string | undefined;
  #isAway = false;
  /** How long the last ones work, from when they were given. */
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

  /** The pod can do nothing without. */
  get neededAtStart(): boolean {
    return this.#attempt.input.kind === 'object' || isInputInBlobStore(this.#attempt);
  }

  /** The last ones. */
  get given(): string | undefined {
    return this.needed ? this.#given : NO_KEYS;
  }

  /** Why there are none yet. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Why there will be none: a store that is away comes back. */
  get refusal(): string | undefined {
    return this.#isAway ? undefined : this.#problem;
  }

  /** The first ones, if they come in that time. */
  async firstWithin(milliseconds: number): Promise<string | undefined> {
    if (!this.needed) return NO_KEYS;
    const late = new AbortController();
    const asked = this.#request().catch(() => undefined);
    const given = await Promise.race([asked, pause(milliseconds, undefined, { signal: late.signal }).catch(() => {})]);
    late.abort();
    this.#given = given ?? undefined;
    return this.#given;
  }

  /** Renews them until the signal says so; `write` is given each that is new to it. Never fails. */
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
        wait = backOff(++failures, RETRY, Math.random());
      }
      this.#requested = undefined;
      // A timer takes no longer ones.
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

/** How long keys work that were given now. The store that gives them for the shortest time decides. */
export function keyLifetime(stores: ReadonlyMap<string, StoreAccess>, keyMs: number, now: number): number {
  const ends = [...stores.values()].map((access) => (access.type === 's3' ? access.expiresAt : undefined));
  const shortest = Math.min(keyMs, ...ends.filter((end) => end !== undefined).map((end) => end - now));
  return Math.max(shortest, Math.min(keyMs, 2 * SHORTEST_MS));
}
