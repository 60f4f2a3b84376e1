import { hash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../cluster/index.ts';
import { STAGING_BUCKET } from '../object-store.ts';
import { isRefused, unless } from './wire/refusal.ts';
import { bare, type S3 } from './wire/s3.ts';

export interface Held {
  /** The note of somebody who has died over the work. */
  readonly left: string | undefined;
  /** Writes a note for whoever comes after us, should we die. */
  note(text: string): Promise<void>;
  /** The work is not done: the claim stays, until the lease is over and somebody else takes up the note. */
  leave(): void;
}

/** How long a claim holds when its holder dies. Work under one takes a tenth of a second; each request may take ten. */
const LEASE = 60_000;

/** Between two looks at the claim of somebody else. */
const SHORTEST_WAIT = 10;
const LONGEST_WAIT = 250;

interface Content {
  /** For people. */
  readonly name: string;
  readonly holder: string;
  readonly lease: number;
  readonly note: string;
}

/**
 * Lets one at a time change what the store has no transactions for: a policy that several buckets are in, the rules of a
 * bucket. A claim is an object in the manager's own bucket, made only if there is none, so that it holds for all
 * managers of a cluster. Its age is told by the clock of the store.
 *
 * A holder that is paused for longer than the lease may overwrite what its successor wrote. What is shown is read from
 * the policies themselves, so that nobody is told of a right that is not there, or not told of one that is.
 */
export class Claims {
  readonly #s3: S3;
  readonly #ready: () => Promise<void>;
  readonly #lease: number;
  /** Of this process: they need not look at the store to wait for each other. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** `ready` makes the manager's own bucket, and waits for a store that does not know everything yet. */
  constructor(s3: S3, ready: () => Promise<void>, lease = LEASE) {
    this.#s3 = s3;
    this.#lease = lease;
    this.#ready = ready;
  }

  async hold<T>(name: string, work: (held: Held) => Promise<T>, longer = 0): Promise<T> {
    const before = this.#last.get(name);
    const turn = (async () => {
      await before?.catch(() => undefined);
      return this.#hold(name, work, this.#lease + longer);
    })();
    this.#last.set(name, turn);
    try {
      return await turn;
    } finally {
      if (this.#last.get(name) === turn) this.#last.delete(name);
    }
  }

  /**
   * Does the store take a write only if its condition holds? Old releases of MinIO do not look at it: then claims are good
   * within one manager alone.
   */
  async areGood(): Promise<boolean> {
    await this.#ready();
    const probe = { bucket: STAGING_BUCKET, key: '.probe' };
    const put = () => unless(['PreconditionFailed'], this.#s3.put(probe, '', { 'if-none-match': '*' }));
    await put();
    return (await put()) === undefined;
  }

  /** Is somebody at it, or has died over it? */
  async isHeld(name: string): Promise<boolean> {
    return (await this.#s3.head(placeOf(name))) !== undefined;
  }

  async #hold<T>(name: string, work: (held: Held) => Promise<T>, lease: number): Promise<T> {
    await this.#ready();
    const content = { name, holder: randomUUID(), lease, note: '' };
    const begun = performance.now();
    let { eTag, left } = await this.#take(content);
    let done = true;
    try {
      return await work({
        left,
        note: async (note) => {
          const headers = { 'if-match': `"${eTag}"` };
          eTag = await this.#s3.put(placeOf(name), JSON.stringify({ ...content, note }), headers);
        },
        leave: () => {
          done = false;
        },
      });
    } finally {
      // One that is over may be somebody else's by now.
      if (done && performance.now() - begun < lease) await this.#s3.remove(placeOf(name)).catch(() => undefined);
    }
  }

  async #take(content: Content): Promise<{ eTag: string; left: string | undefined }> {
    const place = placeOf(content.name);
    const give = performance.now() + content.lease + LEASE;
    for (let wait = SHORTEST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      const free = await this.#putIf({ 'if-none-match': '*' }, content);
      if (free) return { eTag: free, left: undefined };
      const found = await this.#s3.read(place, 1024 * 1024);
      if (!found) continue;
      const other = JSON.parse(found.body.toString()) as Content;
      const eTag = bare(found.headers.etag);
      // The answer to an earlier try got lost.
      if (other.holder === content.holder) return { eTag, left: undefined };
      const age = Date.parse(found.headers.date ?? '') - Date.parse(found.headers['last-modified'] ?? '');
      if (age > other.lease) {
        const taken = await this.#putIf({ 'if-match': `"${eTag}"` }, content);
        if (taken) return { eTag: taken, left: other.note === '' ? undefined : other.note };
      }
      if (performance.now() > give) {
        throw new StoreError(
          'unavailable',
          `"${other.name}" of the object store is being changed by others: try again`,
        );
      }
      await pause(wait * (0.5 + Math.random()));
    }
  }

  async #putIf(headers: Record<string, string>, content: Content): Promise<string | undefined> {
    try {
      return await this.#s3.put(placeOf(content.name), JSON.stringify(content), headers);
    } catch (error) {
      if (isRefused(error, 'PreconditionFailed', 'NoSuchKey')) return undefined;
      throw error;
    }
  }
}

/** A name may be longer than what the store has for a part of a key. */
const placeOf = (name: string) => ({ bucket: STAGING_BUCKET, key: `.claims/${hash('sha256', name)}` });
