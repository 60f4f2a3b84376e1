import type { Database, Query } from './database.ts';

/** Which buckets, by name. */
export interface BucketPage {
  /** The last of the page before. */
  readonly after?: string;
  readonly limit: number;
  /** Only those made for the service with this uid. */
  readonly madeBy?: string;
  /** Only those this user reaches: own, shared with them, public. */
  readonly reachableBy?: string;
}

/** A bucket whose content is being removed. No request can have this name. */
export const REMOVED = '!';

/** Every name of a bucket that is there comes after it. */
const FIRST = `${REMOVED}~`;

/** Each reads indices in the order of names and stops when the page is full, however many buckets there are. */
export const PAGES = {
  all: 'SELECT name FROM bucket WHERE name > ? ORDER BY name LIMIT ?',
  made: 'SELECT name FROM bucket WHERE made_by = ? AND name > ? ORDER BY name LIMIT ?',
  // A union in the order of its parts is a merge of them.
  reachable: `SELECT name FROM bucket WHERE owner = ? AND name > ?
    UNION SELECT name FROM bucket WHERE visibility = 'public' AND name > ?
    UNION SELECT name FROM share WHERE user = ? AND name > ?
    ORDER BY name LIMIT ?`,
  // A service has few buckets.
  madeAndReachable: `SELECT name FROM bucket WHERE made_by = ? AND name > ?
    AND (owner = ? OR visibility = 'public' OR EXISTS (SELECT 1 FROM share WHERE user = ? AND share.name = bucket.name))
    ORDER BY name LIMIT ?`,
} as const;

/** The names of buckets, found by index. */
export class BucketPages {
  readonly #pages: Record<keyof typeof PAGES, Query<{ name: string }>>;

  constructor(database: Database) {
    this.#pages = {
      all: database.query(PAGES.all),
      made: database.query(PAGES.made),
      reachable: database.query(PAGES.reachable),
      madeAndReachable: database.query(PAGES.madeAndReachable),
    };
  }

  names(page: BucketPage): string[] {
    return this.#rows(page).map(({ name }) => name);
  }

  #rows({ after = '', limit, madeBy, reachableBy: user }: BucketPage): { name: string }[] {
    const from = after > FIRST ? after : FIRST;
    const { all, made, reachable, madeAndReachable } = this.#pages;
    if (madeBy !== undefined && user !== undefined) return madeAndReachable.all(madeBy, from, user, user, limit);
    if (madeBy !== undefined) return made.all(madeBy, from, limit);
    if (user !== undefined) return reachable.all(user, from, from, user, from, limit);
    return all.all(from, limit);
  }
}
