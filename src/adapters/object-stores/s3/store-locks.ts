import { hash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../../ports/index.ts';
import { type S3Api, stripQuotes } from './s3-api.ts';
import { hasErrorCode, undefinedOn, withWriteDeadline } from './signed-http-client.ts';

export interface StoreLock {
  /** The note of somebody who has died over the work. It stands until another takes its place. */
  readonly unfinished: string | undefined;
  /**
   * Writes a note for whoever comes after us, should we die; an empty one says that there is nothing to finish. If the work
   * throws while one stands, the claim stays, until the lease is over and somebody else takes up the note.
   */
  setNote(text: string): Promise<void>;
}

/** How long a claim holds when its holder dies. Work under one takes a tenth of a second; each request may take ten. */
const LEASE = 60_000;

/**
 * So much longer than its holder may write a claim is left to it: a store tells whole seconds, and its servers may differ
 * by some. Shorter: one who was late may write with its successor. Longer: more time until the work of the dead goes on.
 */
const GRACE = 5_000;
const WHOLE_SECOND = 1_000;

/** Between two looks at the claim of somebody else. */
const SHORTEST_WAIT = 10;
const LONGEST_WAIT = 250;

export interface StoreLocksOptions {
  /** Milliseconds. */
  readonly lease?: number | undefined;
  /** Told of locks that could not be given back: others wait for them until the lease is over. */
  readonly report?: ((problem: unknown, what: string) => void) | undefined;
}

/** A claim that was got. */
interface AcquiredLock {
  readonly eTag: string;
  /** As it was found: of somebody who died over the work. */
  readonly note: string;
  /** When, by the clock of the store, or a little before. */
  readonly at: number;
}

interface LockRecord {
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
 * Policies, groups, tags and rules are written without conditions, so that a holder that stood still over its work could
 * overwrite what its successor wrote, and give back a right that was withdrawn. That is not left to the clock of the holder:
 * every change it sends is dated so that the store refuses it once the claim may be somebody else's. A store that does not
 * look at the dates of requests, as S3 asks it to, does not protect itself so.
 */
export class StoreLocks {
  readonly #s3: S3Api;
  readonly #ready: () => Promise<void>;
  readonly #lease: number;
  readonly #report: (problem: unknown, what: string) => void;
  /** Of this process: they need not look at the store to wait for each other. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** `ready` makes the manager's own bucket, and waits for a store that does not know everything yet. */
  constructor(
    s3: S3Api,
    ready: () => Promise<void>,
    { lease = LEASE, report = () => undefined }: StoreLocksOptions = {},
  ) {
    this.#s3 = s3;
    this.#lease = lease;
    this.#report = report;
    this.#ready = ready;
  }

  async withLock<T>(name: string, work: (held: StoreLock) => Promise<T>, longer = 0): Promise<T> {
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
   * Does the store take a write only if its condition holds? Old releases of MinIO do not look at it: then locks are good
   * within one manager alone.
   */
  async excludeOtherManagers(): Promise<boolean> {
    await this.#ready();
    const probe = { bucket: this.#s3.staging, key: '.probe' };
    const put = () => undefinedOn(['PreconditionFailed'], this.#s3.put(probe, '', { 'if-none-match': '*' }));
    await put();
    return (await put()) === undefined;
  }

  /** Is somebody at it, or has died over it? */
  async isHeld(name: string): Promise<boolean> {
    return (await this.#s3.head(lockObject(name, this.#s3))) !== undefined;
  }

  async #hold<T>(name: string, work: (held: StoreLock) => Promise<T>, lease: number): Promise<T> {
    await this.#ready();
    const content = { name, holder: randomUUID(), lease, note: '' };
    const taken = await this.#take(content);
    let { eTag, note: standing } = taken;
    const held: StoreLock = {
      unfinished: taken.note === '' ? undefined : taken.note,
      setNote: async (note) => {
        if (note === standing) return;
        const headers = { 'if-match': `"${eTag}"` };
        eTag = await this.#s3.put(lockObject(name, this.#s3), JSON.stringify({ ...content, note }), headers);
        standing = note;
      },
    };
    return withWriteDeadline(taken.at + lease + WHOLE_SECOND, async () => {
      try {
        const result = await work(held);
        standing = '';
        return result;
      } catch (error) {
        throw hasErrorCode(error, REQUEST_TOO_OLD) ? leaseExpired(name, error) : error;
      } finally {
        if (standing === '') await this.#release(name);
      }
    });
  }

  /** One that is over may be somebody else's by now: then the store refuses it. */
  async #release(name: string): Promise<void> {
    try {
      await this.#s3.remove(lockObject(name, this.#s3));
    } catch (error) {
      if (!hasErrorCode(error, REQUEST_TOO_OLD))
        this.#report(error, `others wait a minute to change "${name}" of the object store`);
    }
  }

  async #take(content: LockRecord): Promise<AcquiredLock> {
    const place = lockObject(content.name, this.#s3);
    const give = performance.now() + content.lease + LEASE;
    for (let wait = SHORTEST_WAIT; ; wait = Math.min(wait * 2, LONGEST_WAIT)) {
      const free = await this.#putIf({ 'if-none-match': '*' }, content);
      if (free) return free;
      const found = await this.#s3.read(place, 1024 * 1024);
      if (!found) continue;
      const other = JSON.parse(found.body.toString()) as LockRecord;
      const eTag = stripQuotes(found.headers.etag);
      const since = Date.parse(found.headers['last-modified'] ?? '');
      // The answer to an earlier try got lost.
      if (other.holder === content.holder) return { eTag, note: other.note, at: since };
      const age = Date.parse(found.headers.date ?? '') - since;
      if (age > other.lease + GRACE) {
        const taken = await this.#putIf({ 'if-match': `"${eTag}"` }, { ...content, note: other.note });
        if (taken) return taken;
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

  async #putIf(headers: Record<string, string>, content: LockRecord): Promise<AcquiredLock | undefined> {
    const { bucket, key } = lockObject(content.name, this.#s3);
    const begun = performance.now();
    try {
      const request = { method: 'PUT', path: `/${bucket}/${key}`, body: JSON.stringify(content), headers } as const;
      const answer = await this.#s3.send(request);
      // The store dates its answer, which may be later than what it has written. Nothing is written before it is sent.
      const answered = Date.parse(answer.headers.date ?? '') || Number.POSITIVE_INFINITY;
      const eTag = stripQuotes(answer.headers.etag);
      return { eTag, note: content.note, at: answered - (performance.now() - begun) };
    } catch (error) {
      if (hasErrorCode(error, 'PreconditionFailed', 'NoSuchKey')) return undefined;
      throw error;
    }
  }
}

/** What the store says of a request that is dated too long ago. */
const REQUEST_TOO_OLD = 'RequestTimeTooSkewed';

const leaseExpired = (name: string, cause: unknown) =>
  new StoreError(
    'unavailable',
    `this manager took too long to change "${name}" of the object store, and others may have gone on with it: try again`,
    { cause },
  );

/** A name may be longer than what the store has for a part of a key. */
const lockObject = (name: string, { staging }: S3Api) => ({ bucket: staging, key: `.claims/${hash('sha256', name)}` });
