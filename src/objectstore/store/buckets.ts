import { S3Error } from '../errors.ts';
import type { Bucket, BucketChange, NewBucket, Rule, Usage } from './bucket.ts';
import { checkBucketName } from './bucket-name.ts';
import { type BucketPage, BucketPages, REMOVED } from './bucket-pages.ts';
import type { Database, Query } from './database.ts';

interface Row {
  id: number;
  name: string;
  owner: string;
  visibility: Bucket['visibility'];
  allowed_users: string;
  tags: string;
  made_by: string | null;
  cors: string | null;
  quota: number | null;
  created: number;
}

/**
 * Buckets and their notification rules. What was read is kept, since every request needs its bucket, and forgotten in
 * the transaction that changes it: the next write of the same transaction must see the change.
 */
export class Buckets {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #known = new Map<string, Bucket>();
  readonly #statements: ReturnType<typeof prepare>;
  readonly #pages: BucketPages;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
    this.#statements = prepare(database);
    this.#pages = new BucketPages(database);
    database.onRollback(() => this.#known.clear());
  }

  find(name: string): Bucket | undefined {
    const known = this.#known.get(name);
    if (known) return known;
    const row = this.#statements.find.get(name);
    if (!row) return undefined;
    const bucket = { ...bucketOf(row), rules: this.#statements.rules.all(row.id).map((rule) => ({ ...rule })) };
    this.#known.set(name, bucket);
    return bucket;
  }

  get(name: string): Bucket {
    const bucket = this.find(name);
    if (!bucket) throw new S3Error('NoSuchBucket');
    return bucket;
  }

  usage(bucket: Bucket): Usage {
    const { objects = 0, bytes = 0 } = this.#statements.usage.get(bucket.id) ?? {};
    return { objects, bytes };
  }

  /** By name. A page costs what it shows, however many buckets there are. */
  page(page: BucketPage): Bucket[] {
    return this.#pages.names(page).flatMap((name) => this.find(name) ?? []);
  }

  /** Undefined when it was created, or the owner that it has already. */
  create(bucket: NewBucket): Promise<{ owner: string } | undefined> {
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

  update(name: string, change: BucketChange, check?: (bucket: Bucket) => void): Promise<void> {
    return this.#database.write(() => {
      const bucket = this.get(name);
      check?.(bucket);
      const { owner, visibility, allowedUsers, tags, madeBy, cors, quota } = { ...bucket, ...defined(change) };
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
      this.#known.delete(name);
    });
  }

  /** The name is free at once; returns the number under which its content waits for removal. */
  async remove(name: string, withContent: boolean, check?: (bucket: Bucket) => void): Promise<number> {
    return this.#database.write(() => {
      const bucket = this.get(name);
      check?.(bucket);
      if (!withContent && this.#statements.anyObject.get(bucket.id)) throw new S3Error('BucketNotEmpty');
      this.#statements.dropRules.run(bucket.id);
      this.#statements.unshare.run(name);
      this.#statements.rename.run(`${REMOVED}${bucket.id}`, bucket.id);
      this.#known.delete(name);
      return bucket.id;
    });
  }

  /** Buckets whose content was not yet removed when the process ended. */
  halfRemoved(): number[] {
    return this.#statements.halfRemoved.all().map(({ id }) => id);
  }

  putRule(name: string, { id, prefix, suffix }: Rule): Promise<void> {
    return this.#database.write(() => {
      this.#statements.putRule.run(this.get(name).id, id, prefix, suffix);
      this.#known.delete(name);
    });
  }

  removeRule(name: string, id: string): Promise<void> {
    return this.#database.write(() => {
      const bucket = this.find(name);
      if (bucket) this.#statements.removeRule.run(bucket.id, id);
      this.#known.delete(name);
    });
  }

  replaceRules(name: string, rules: readonly Rule[], check: (bucket: Bucket) => void): Promise<void> {
    return this.#database.write(() => {
      const bucket = this.get(name);
      check(bucket);
      this.#statements.dropRules.run(bucket.id);
      for (const { id, prefix, suffix } of rules) this.#statements.putRule.run(bucket.id, id, prefix, suffix);
      this.#known.delete(name);
    });
  }

  /** In a transaction. */
  #share({ name, visibility, allowedUsers }: Pick<Bucket, 'name' | 'visibility' | 'allowedUsers'>): void {
    this.#statements.unshare.run(name);
    if (visibility === 'restricted') for (const user of allowedUsers) this.#statements.share.run(user, name);
  }
}

function bucketOf(row: Row): Omit<Bucket, 'rules'> {
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

function defined(change: BucketChange): BucketChange {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
}

function prepare(database: Database) {
  const columns = 'id, name, owner, visibility, allowed_users, tags, made_by, cors, quota, created';
  return {
    find: database.query<Row>(`SELECT ${columns} FROM bucket WHERE name = ?`),
    usage: database.query<Usage>('SELECT objects, bytes FROM bucket WHERE id = ?'),
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
      `SELECT id FROM bucket WHERE name >= '${REMOVED}' AND name < '${REMOVED}~'`,
    ),
    rules: database.query<Rule>('SELECT id, prefix, suffix FROM rule WHERE bucket = ? ORDER BY id'),
    putRule: database.query('INSERT OR REPLACE INTO rule (bucket, id, prefix, suffix) VALUES (?, ?, ?, ?)'),
    removeRule: database.query('DELETE FROM rule WHERE bucket = ? AND id = ?'),
    dropRules: database.query('DELETE FROM rule WHERE bucket = ?'),
  } satisfies Record<string, Query<never> | object>;
}
