import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { canSeeBucket } from '../access/authorization.ts';
import { BUCKET_PAGE_QUERIES, type BucketPage, Buckets, type NewStoreBucket } from './buckets.ts';
import { STORE_MIGRATIONS, StoreDatabase } from './database.ts';

function temporaryFile(t: Pick<TestContext, 'after'>): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-buckets-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return join(directory, 'objects.db');
}

function open(t: Pick<TestContext, 'after'>, path = temporaryFile(t)) {
  const database = new StoreDatabase(path);
  t.after(() => database.close());
  return { database, buckets: new Buckets(database, () => 0) };
}

/** Reads all pages of a query. */
function names(buckets: Buckets, question: BucketPage): string[] {
  const found: string[] = [];
  for (let after: string | undefined = ''; after !== undefined; ) {
    const page = buckets.page({ ...question, after });
    assert.ok(page.length <= question.limit);
    found.push(...page.map(({ name }) => name));
    after = page.length < question.limit ? undefined : page.at(-1)?.name;
  }
  return found;
}

const USERS = ['ana', 'ben', 'cleo'];
const MAKERS = ['service-1', 'service-2'];
const facts = fc.record({
  owner: fc.constantFrom(...USERS),
  visibility: fc.constantFrom('private', 'restricted', 'public'),
  allowedUsers: fc.array(fc.constantFrom(...USERS), { maxLength: 3 }),
});
const steps = fc.array(
  fc.record({
    name: fc.constantFrom(...Array.from({ length: 8 }, (_, n) => `bucket-${n}`)),
    facts,
    madeBy: fc.option(fc.constantFrom(...MAKERS)),
    remove: fc.boolean(),
  }),
  { maxLength: 20 },
);

test('bucket pages: the index finds the same buckets as a scan, after any changes', async (t) => {
  const { buckets } = open(t);
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 4 }), async (plan, limit) => {
      for (const name of names(buckets, { limit: 100 })) await buckets.remove(name, true);
      for (const { name, facts: given, madeBy, remove } of plan) {
        const there = buckets.find(name);
        if (there && remove) await buckets.remove(name, true);
        else if (there) await buckets.update(name, { ...given, madeBy });
        else await buckets.create({ name, ...given, ...(madeBy !== null && { madeBy }) });
      }
      const everything = names(buckets, { limit: 100 }).map((name) => buckets.get(name));
      for (const user of [...USERS, 'nobody', undefined]) {
        for (const maker of [...MAKERS, undefined]) {
          const expected = everything.filter(
            (bucket) =>
              (user === undefined || canSeeBucket({ kind: 'user', user }, bucket)) &&
              (maker === undefined || bucket.madeBy === maker),
          );
          const question = { limit, ...(user && { reachableBy: user }), ...(maker && { madeBy: maker }) };
          assert.deepEqual(
            names(buckets, question),
            expected.map(({ name }) => name),
            JSON.stringify(question),
          );
        }
      }
    }),
  );
});

test('bucket pages: a few of ten thousand buckets are found', async (t) => {
  const { buckets } = open(t);
  const numbered = (n: number) => `b-${String(n).padStart(5, '0')}`;
  const special: Record<number, Partial<NewStoreBucket>> = {
    7: { owner: 'ana' },
    4_000: { visibility: 'restricted', allowedUsers: ['ben', 'ana'] },
    4_001: { visibility: 'restricted', allowedUsers: ['ben'] },
    5_000: { visibility: 'public', madeBy: 'service-1' },
    9_999: { owner: 'ana', madeBy: 'service-1' },
  };
  await Promise.all(
    Array.from({ length: 10_000 }, (_, n) =>
      buckets.create({ name: numbered(n), owner: 'somebody', madeBy: 'another service', ...special[n] }),
    ),
  );
  assert.deepEqual(names(buckets, { limit: 3, reachableBy: 'ana' }), [7, 4_000, 5_000, 9_999].map(numbered));
  assert.deepEqual(names(buckets, { limit: 1, madeBy: 'service-1' }), [5_000, 9_999].map(numbered));
  assert.deepEqual(names(buckets, { limit: 9, madeBy: 'service-1', reachableBy: 'ben' }), [numbered(5_000)]);
});

const INDICES: Record<keyof typeof BUCKET_PAGE_QUERIES, string[]> = {
  all: ['bucket USING COVERING INDEX sqlite_autoindex_bucket_1 (name>?)'],
  made: ['bucket USING COVERING INDEX bucket_by_maker (made_by=? AND name>?)'],
  reachable: [
    'bucket USING COVERING INDEX bucket_by_owner (owner=? AND name>?)',
    'bucket USING COVERING INDEX bucket_public (name>?)',
    'share USING PRIMARY KEY (user=? AND name>?)',
  ],
  madeAndReachable: [
    'bucket USING INDEX bucket_by_maker (made_by=? AND name>?)',
    'share USING PRIMARY KEY (user=? AND name=?)',
  ],
};

for (const [name, indices] of Object.entries(INDICES)) {
  test(`bucket pages: the query "${name}" reads indices in order, starts at the last name, and does not sort`, (t) => {
    const { database } = open(t);
    const sql = BUCKET_PAGE_QUERIES[name as keyof typeof BUCKET_PAGE_QUERIES];
    const plan = database.query<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all();
    const details = plan.map(({ detail }) => detail);
    const searches = details.filter((detail) => detail.startsWith('SEARCH ')).map((detail) => detail.slice(7));
    assert.deepEqual(searches, indices);
    for (const detail of details) assert.doesNotMatch(detail, /SCAN|TEMP B-TREE/);
  });
}

test('bucket pages: buckets of a store with the first schema are found', async (t) => {
  const path = temporaryFile(t);
  {
    using old = new DatabaseSync(path);
    old.exec(`PRAGMA journal_mode = WAL; ${STORE_MIGRATIONS[0]}; PRAGMA user_version = 1;`);
    const insert = old.prepare(
      "INSERT INTO bucket (name, owner, visibility, allowed_users, tags, made_by, created) VALUES (?, 'ana', ?, ?, '{}', ?, 0)",
    );
    insert.run('restricted', 'restricted', '["ben","ben","cleo"]', 'service-1');
    insert.run('was-restricted', 'private', '["ben"]', null);
    insert.run('public', 'public', '[]', 'service-1');
    insert.run('!4', 'restricted', '["ben"]', 'service-1');
  }
  const { buckets } = open(t, path);
  assert.deepEqual(names(buckets, { limit: 9, reachableBy: 'ben' }), ['public', 'restricted']);
  assert.deepEqual(names(buckets, { limit: 9, reachableBy: 'ana' }), ['public', 'restricted', 'was-restricted']);
  assert.deepEqual(names(buckets, { limit: 9, madeBy: 'service-1' }), ['public', 'restricted']);
});
