import { hash, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { KeyedMutex } from '../../../lib/concurrency.ts';
import { jitter } from '../../../lib/retry.ts';
import { StoreError } from '../../../ports/index.ts';
import { type S3Api, stripQuotes } from './s3-api.ts';
import { hasErrorCode, undefinedOn, withWriteDeadline } from './signed-http-client.ts';

export interface StoreLock {
  /** The note of a holder that died during its work. It stays until another note replaces it. */
  readonly unfinished: string | undefined;
  /**
   * Writes a note for the next holder, in case this one dies; an empty note means that there is nothing to complete. If the
   * work throws while a note is set, the lock stays until its lease expires and another holder completes the work.
   */
  setNote(text: string): Promise<void>;
}

/** How long a lock lasts if its holder dies. Work under a lock usually takes 0.1 s, but each request may take 10 s. */
const LEASE = 60_000;

/**
 * A lock is taken over only this much after its holder may last write: the store reports whole seconds, and the clocks of its
 * servers may differ. With a shorter time, a late holder could write at the same time as its successor; a longer one delays
 * the work that a dead holder has left.
 */
const GRACE = 5_000;
const WHOLE_SECOND = 1_000;

/** Between two checks of a lock that another manager holds. */
const SHORTEST_WAIT = 10;
const LONGEST_WAIT = 250;

export interface StoreLocksOptions {
  /** Milliseconds. */
  readonly lease?: number | undefined;
  /** Called for locks that could not be released: others wait until their lease expires. */
  readonly report?: ((problem: unknown, what: string) => void) | undefined;
}

/** A lock that this manager has acquired. */
interface AcquiredLock {
  readonly eTag: string;
  /** The note of the previous holder, if that died during its work. */
  readonly note: string;
  /** When it was acquired, by the clock of the store, or a little earlier. */
  readonly at: number;
}

interface LockRecord {
  /** For operators who look at the object. */
  readonly name: string;
  readonly holder: string;
  readonly lease: number;
  readonly note: string;
}

/**
 * Locks for changes for which the store has no transactions: a policy of several buckets, the rules of a bucket. A lock is an
 * object in the staging bucket that is created only if it does not exist, so it holds for all managers of a cluster. Its age
 * is measured by the clock of the store.
 *
 * Policies, groups, tags and rules have no conditional writes. So a holder that was paused could overwrite what its successor
 * wrote, and restore a permission that was revoked. The clock of the holder is not trusted to prevent that: every write under
 * a lock is dated so that the store rejects it once another manager may hold the lock. This does not protect a store that
 * ignores the dates of requests, against the rules of S3.
 */
export class StoreLocks {
  readonly #s3: S3Api;
  readonly #ready: () => Promise<void>;
  readonly #lease: number;
  readonly #report: (problem: unknown, what: string) => void;
  /** Holders in this process wait for each other here, without requests to the store. */
  readonly #mutex = new KeyedMutex();

  /** `ready` creates the staging bucket, and waits until a store that has just started has loaded its users and policies. */
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
    return this.#mutex.run(name, () => this.#hold(name, work, this.#lease + longer));
  }

  /** Tests whether the store supports conditional writes. Old releases of MinIO do not: then locks work within one manager only. */
  async excludeOtherManagers(): Promise<boolean> {
    await this.#ready();
    const probe = { bucket: this.#s3.staging, key: '.probe' };
    const put = () => undefinedOn(['PreconditionFailed'], this.#s3.put(probe, '', { 'if-none-match': '*' }));
    await put();
    return (await put()) === undefined;
  }

  /** True if a manager holds the lock, or died while it held it. */
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

  /** The store rejects the release of an expired lock, which may belong to another manager by now. */
  async #release(name: string): Promise<void> {
    try {
      await this.#s3.remove(lockObject(name, this.#s3));
    } catch (error) {
      if (!hasErrorCode(error, REQUEST_TOO_OLD))
        this.#report(error, `a lock of the object store was not released: changes of "${name}" wait for a minute`);
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
      const eTag = stripQuotes(found.headers['etag']);
      const since = Date.parse(found.headers['last-modified'] ?? '');
      // The response to an earlier try was lost.
      if (other.holder === content.holder) return { eTag, note: other.note, at: since };
      const age = Date.parse(found.headers['date'] ?? '') - since;
      if (age > other.lease + GRACE) {
        const taken = await this.#putIf({ 'if-match': `"${eTag}"` }, { ...content, note: other.note });
        if (taken) return taken;
      }
      if (performance.now() > give) {
        throw new StoreError(
          'unavailable',
          `"${other.name}" of the object store is being changed by another manager: try again`,
        );
      }
      await pause(jitter(wait));
    }
  }

  async #putIf(headers: Record<string, string>, content: LockRecord): Promise<AcquiredLock | undefined> {
    const { bucket, key } = lockObject(content.name, this.#s3);
    const begun = performance.now();
    try {
      const request = { method: 'PUT', path: `/${bucket}/${key}`, body: JSON.stringify(content), headers } as const;
      const answer = await this.#s3.send(request);
      // The date of the response may be later than the write, but the write is not earlier than the request.
      const answered = Date.parse(answer.headers['date'] ?? '') || Number.POSITIVE_INFINITY;
      const eTag = stripQuotes(answer.headers['etag']);
      return { eTag, note: content.note, at: answered - (performance.now() - begun) };
    } catch (error) {
      if (hasErrorCode(error, 'PreconditionFailed', 'NoSuchKey')) return undefined;
      throw error;
    }
  }
}

/** The error code of the store for a request whose date is too old. */
const REQUEST_TOO_OLD = 'RequestTimeTooSkewed';

const leaseExpired = (name: string, cause: unknown) =>
  new StoreError(
    'unavailable',
    `this manager took too long to change "${name}" of the object store, and another manager may have continued: try again`,
    { cause },
  );

/** Hashed, because a name may be longer than the store allows in a key. */
const lockObject = (name: string, { staging }: S3Api) => ({ bucket: staging, key: `.claims/${hash('sha256', name)}` });
