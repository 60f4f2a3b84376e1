import type { BucketAccessFacts, BucketVisibility } from '../access/authorization.ts';
import { S3Error } from '../lib/errors.ts';
import type { StoreDatabase, StoreStatement } from './database.ts';

/** A notification rule: new objects with this prefix and suffix cause events. */
export interface Rule {
  readonly id: string;
  readonly prefix: string;
  readonly suffix: string;
}

export interface StoreBucket extends BucketAccessFacts {
  readonly id: number;
  readonly tags: Readonly<Record<string, string>>;
  /** The uid of the service that the manager created the bucket for. */
  readonly madeBy: string | undefined;
  /** The CORS configuration as XML, unchanged. */
  readonly cors: string | undefined;
  /** Bytes. */
  readonly quota: number | undefined;
  /** Milliseconds. */
  readonly created: number;
  readonly rules: readonly Rule[];
}

/** Exact numbers: they change in the transaction that changes an object. */
export interface BucketUsageCount {
  readonly objects: number;
  readonly bytes: number;
}

export interface NewStoreBucket {
  readonly name: string;
  readonly owner: string;
  readonly visibility?: BucketVisibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string;
  readonly quota?: number;
}

/** Undefined keys stay unchanged; null removes a value. */
export interface StoreBucketChange {
  readonly owner?: string;
  readonly visibility?: BucketVisibility;
  readonly allowedUsers?: readonly string[];
  readonly tags?: Readonly<Record<string, string>>;
  readonly madeBy?: string | null;
  readonly cors?: string | null;
  readonly quota?: number | null;
}

interface Row {
  id: number;
  name: string;
  owner: string;
  visibility: StoreBucket['visibility'];
  allowed_users: string;
  tags: string;
  made_by: string | null;
  cors: string | null;
  quota: number | null;
  created: number;
}

/**
 * Buckets and their notification rules. Every request needs its bucket, so buckets are cached. A transaction that
 * changes a bucket also removes it from the cache, because the next write in the same transaction must see the change.
 */
export class Buckets {
  readonly #database: StoreDatabase;
  readonly #now: () => number;
  readonly #cache = new Map<string, StoreBucket>();
  readonly #statements: ReturnType<typeof prepare>;
  readonly #pages: BucketPages;

  constructor(database: StoreDatabase, now: () => number) {
    this.#database = database;
    this.#now = now;
    this.#statements = prepare(database);
    this.#pages = new BucketPages(database);
    database.onRollback(() => this.#cache.clear());
  }

  find(name: string): StoreBucket | undefined {
    const known = this.#cache.get(name);
    if (known) return known;
    const row = this.#statements.find.get(name);
    if (!row) return undefined;
    const bucket = { ...toBucket(row), rules: this.#statements.rules.all(row.id).map((rule) => ({ ...rule })) };
    this.#cache.set(name, bucket);
    return bucket;
  }

  get(name: string): StoreBucket {
    const bucket = this.find(name);
    if (!bucket) throw new S3Error('NoSuchBucket');
    return bucket;
  }

  usage(bucket: StoreBucket): BucketUsageCount {
    const { objects = 0, bytes = 0 } = this.#statements.usage.get(bucket.id) ?? {};
    return { objects, bytes };
  }

  /** A page of buckets by name. Its cost does not depend on the number of buckets. */
  page(page: BucketPage): StoreBucket[] {
    return this.#pages.names(page).flatMap((name) => this.find(name) ?? []);
  }

  /** Resolves to undefined if the bucket was created, or to the owner of the existing one. */
  create(bucket: NewStoreBucket): Promise<{ owner: string } | undefined> {
    checkBucketName(bucket.name);
    const { name, owner, visibility = 'private', allowedUsers = [], tags = {}, madeBy, quota } = bucket;
    return this.#database.write(() => {
      const existing = this.#statements.find.get(name);
      if (existing) return { owner: existing.owner };
      const lists = [JSON.stringify(allowedUsers), JSON.stringify(tags)] as const;
      this.#statements.create.run(name, owner, visibility, ...lists, madeBy ?? null, quota ?? null, this.#now());
      this.#share({ name, visibility, allowedUsers });
      return undefined;
    });
  }

  update(name: string, change: StoreBucketChange, check?: (bucket: StoreBucket) => void): Promise<void> {
    return this.#database.write(() => {
      const bucket = this.get(name);
      check?.(bucket);
      const { owner, visibility, allowedUsers, tags, madeBy, cors, quota } = { ...bucket, ...withoutUndefined(change) };
      this.#statements.update.run(
        owner,
        visibility,
        JSON.stringify(allowedUsers),
        JSON.stringify(tags),
        madeBy ?? null,
        cors ?? null,
        quota ?? null,
        bucket.id,
      );
      this.#share({ name, visibility, allowedUsers });
      this.#cache.delete(name);
    });
  }

  /** The name is free at once. Resolves to the id under which the content waits for its removal. */
  async remove(name: string, withContent: boolean, check?: (bucket: StoreBucket) => void): Promise<number> {
    return this.#database.remove(() => {
      const bucket = this.get(name);
      check?.(bucket);
      if (!withContent && this.#statements.anyObject.get(bucket.id)) throw new S3Error('BucketNotEmpty');
      this.#statements.dropRules.run(bucket.id);
      this.#statements.unshare.run(name);
      this.#statements.rename.run(`${REMOVED_PREFIX}${bucket.id}`, bucket.id);
      this.#cache.delete(name);
      return bucket.id;
    });
  }

  /** Ids of removed buckets whose content was not removed before the process ended. */
  pendingRemovals(): number[] {
    return this.#statements.halfRemoved.all().map(({ id }) => id);
  }

  putRule(name: string, { id, prefix, suffix }: Rule): Promise<void> {
    return this.#database.write(() => {
      this.#statements.putRule.run(this.get(name).id, id, prefix, suffix);
      this.#cache.delete(name);
    });
  }

  removeRule(name: string, id: string): Promise<void> {
    return this.#database.remove(() => {
      const bucket = this.find(name);
      if (bucket) this.#statements.removeRule.run(bucket.id, id);
      this.#cache.delete(name);
    });
  }

  replaceRules(name: string, rules: readonly Rule[], check: (bucket: StoreBucket) => void): Promise<void> {
    return this.#database.write(() => {
      const bucket = this.get(name);
      check(bucket);
      this.#statements.dropRules.run(bucket.id);
      for (const { id, prefix, suffix } of rules) this.#statements.putRule.run(bucket.id, id, prefix, suffix);
      this.#cache.delete(name);
    });
  }

  /** In a transaction. */
  #share({ name, visibility, allowedUsers }: Pick<StoreBucket, 'name' | 'visibility' | 'allowedUsers'>): void {
    this.#statements.unshare.run(name);
    if (visibility === 'restricted') for (const user of allowedUsers) this.#statements.share.run(user, name);
  }
}

function toBucket(row: Row): Omit<StoreBucket, 'rules'> {
  return {
    id: row.id,
    name: row.name,
    owner: row.owner,
    visibility: row.visibility,
    allowedUsers: JSON.parse(row.allowed_users),
    tags: JSON.parse(row.tags),
    madeBy: row.made_by ?? undefined,
    cors: row.cors ?? undefined,
    quota: row.quota ?? undefined,
    created: row.created,
  };
}

function withoutUndefined(change: StoreBucketChange): StoreBucketChange {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

function prepare(database: StoreDatabase) {
  const columns = 'id, name, owner, visibility, allowed_users, tags, made_by, cors, quota, created';
  return {
    find: database.query<Row>(`SELECT ${columns} FROM bucket WHERE name = ?`),
    usage: database.query<BucketUsageCount>('SELECT objects, bytes FROM bucket WHERE id = ?'),
    create: database.query(
      `INSERT INTO bucket (name, owner, visibility, allowed_users, tags, made_by, quota, created)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    update: database.query(
      `UPDATE bucket SET owner = ?, visibility = ?, allowed_users = ?, tags = ?, made_by = ?, cors = ?, quota = ?
       WHERE id = ?`,
    ),
    share: database.query('INSERT OR IGNORE INTO share (user, name) VALUES (?, ?)'),
    unshare: database.query('DELETE FROM share WHERE name = ?'),
    rename: database.query('UPDATE bucket SET name = ? WHERE id = ?'),
    anyObject: database.query<{ key: string }>('SELECT key FROM object WHERE bucket = ? LIMIT 1'),
    halfRemoved: database.query<{ id: number }>(
      `SELECT id FROM bucket WHERE name >= '${REMOVED_PREFIX}' AND name < '${REMOVED_PREFIX}~'`,
    ),
    rules: database.query<Rule>('SELECT id, prefix, suffix FROM rule WHERE bucket = ? ORDER BY id'),
    putRule: database.query('INSERT OR REPLACE INTO rule (bucket, id, prefix, suffix) VALUES (?, ?, ?, ?)'),
    removeRule: database.query('DELETE FROM rule WHERE bucket = ? AND id = ?'),
    dropRules: database.query('DELETE FROM rule WHERE bucket = ?'),
  } satisfies Record<string, StoreStatement<never> | object>;
}

/** Selects buckets, in the order of their names. */
export interface BucketPage {
  /** The last name of the previous page. */
  readonly after?: string;
  readonly limit: number;
  /** Only buckets of the service with this uid. */
  readonly madeBy?: string;
  /** Only buckets that this user can access: their own, shared ones and public ones. */
  readonly reachableBy?: string;
}

/** Begins the name of a bucket whose content is being removed. No request can contain such a name. */
const REMOVED_PREFIX = '!';

/** The names of all existing buckets come after it. */
const FIRST_NAME = `${REMOVED_PREFIX}~`;

/** Each query reads indices in the order of names and stops when the page is full. */
export const BUCKET_PAGE_QUERIES = {
  all: 'SELECT name FROM bucket WHERE name > ? ORDER BY name LIMIT ?',
  made: 'SELECT name FROM bucket WHERE made_by = ? AND name > ? ORDER BY name LIMIT ?',
  // SQLite merges the parts of a union that are already in order.
  reachable: `SELECT name FROM bucket WHERE owner = ? AND name > ?
    UNION SELECT name FROM bucket WHERE visibility = 'public' AND name > ?
    UNION SELECT name FROM share WHERE user = ? AND name > ?
    ORDER BY name LIMIT ?`,
  // A service has few buckets.
  madeAndReachable: `SELECT name FROM bucket WHERE made_by = ? AND name > ?
    AND (owner = ? OR visibility = 'public' OR EXISTS (SELECT 1 FROM share WHERE user = ? AND share.name = bucket.name))
    ORDER BY name LIMIT ?`,
} as const;

/** Finds the names of buckets through indices. */
class BucketPages {
  readonly #pages: Record<keyof typeof BUCKET_PAGE_QUERIES, StoreStatement<{ name: string }>>;

  constructor(database: StoreDatabase) {
    this.#pages = {
      all: database.query(BUCKET_PAGE_QUERIES.all),
      made: database.query(BUCKET_PAGE_QUERIES.made),
      reachable: database.query(BUCKET_PAGE_QUERIES.reachable),
      madeAndReachable: database.query(BUCKET_PAGE_QUERIES.madeAndReachable),
    };
  }

  names(page: BucketPage): string[] {
    return this.#rows(page).map(({ name }) => name);
  }

  #rows({ after = '', limit, madeBy, reachableBy: user }: BucketPage): { name: string }[] {
    const from = after > FIRST_NAME ? after : FIRST_NAME;
    const { all, made, reachable, madeAndReachable } = this.#pages;
    if (madeBy !== undefined && user !== undefined) return madeAndReachable.all(madeBy, from, user, user, limit);
    if (madeBy !== undefined) return made.all(madeBy, from, limit);
    if (user !== undefined) return reachable.all(user, from, from, user, from, limit);
    return all.all(from, limit);
  }
}

/** Whether a new object with this key causes an event: one, even if several rules match. */
export function matchesRules({ rules }: Pick<StoreBucket, 'rules'>, key: string): boolean {
  return rules.some(({ prefix, suffix }) => key.startsWith(prefix) && key.endsWith(suffix));
}

/** S3's rules for bucket names. They also exclude paths and IP addresses. */
function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) &&
    !/\.\.|\.-|-\./.test(name) &&
    !/^\d{1,3}(\.\d{1,3}){3}$/.test(name)
  );
}

export function checkBucketName(name: string): void {
  if (isBucketName(name)) return;
  throw new S3Error(
    'InvalidBucketName',
    'A bucket name must have 3 to 63 characters: lower-case letters, digits, dots and dashes, with a letter or digit at both ends.',
  );
}
