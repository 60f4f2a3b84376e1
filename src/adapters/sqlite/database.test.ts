import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Database } from './database.ts';

const NUMBERS = ['CREATE TABLE numbers (n INTEGER PRIMARY KEY, text TEXT)'];

function openNumbers(t: TestContext) {
  const path = join(temporaryDirectory(t), 'test.db');
  const database = new Database(path, NUMBERS);
  const outside = new DatabaseSync(path, { timeout: 0 });
  t.after(() => {
    outside.close();
    database.close();
  });
  const insert = database.query('INSERT INTO numbers (n, text) VALUES (?, ?)');
  const seen = outside.prepare('SELECT n FROM numbers ORDER BY n');
  return {
    database,
    outside,
    add: (n: number, text = '') => database.write(() => insert.run(n, text)),
    insert: (n: number) => insert.run(n, ''),
    /** The rows that another process sees, which are the committed ones. */
    committed: () => seen.all().map((row) => row['n']),
  };
}

test('write: a write is committed when its promise resolves, not in the turn that called it', async (t) => {
  const { add, committed } = openNumbers(t);
  const written = add(1);
  assert.deepEqual(committed(), []);
  await written;
  assert.deepEqual(committed(), [1]);
});

test('write: the writes of one turn are one transaction', async (t) => {
  const { database, insert, committed } = openNumbers(t);
  let seenByTheLast: unknown;
  await Promise.all([
    database.write(() => insert(1)),
    database.write(() => insert(2)),
    database.write(() => {
      seenByTheLast = committed();
    }),
  ]);
  assert.deepEqual(seenByTheLast, []);
  assert.deepEqual(committed(), [1, 2]);
});

test('write: a write that throws is rolled back, the others of its transaction are not', async (t) => {
  const { database, add, insert, committed } = openNumbers(t);
  const failing = database.write(() => {
    insert(2);
    insert(3);
    throw new Error('no');
  });
  const results = await Promise.allSettled([add(1), failing, add(1), add(4)]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
  );
  await assert.rejects(failing, { message: 'no' });
  assert.deepEqual(committed(), [1, 4]);
});

test('write: commit callbacks run before any promise resolves, and never for a failed write', async (t) => {
  const { database, insert } = openNumbers(t);
  const events: string[] = [];
  const note = (event: string) => () => {
    events.push(event);
  };
  await Promise.allSettled([
    database.write(() => insert(1), note('first committed')).then(note('first resolved')),
    database.write(() => insert(1), note('failed committed')).catch(note('failed rejected')),
    database.write(() => insert(2), note('second committed')).then(note('second resolved')),
  ]);
  assert.deepEqual(events.slice(0, 2), ['first committed', 'second committed']);
  assert.deepEqual(events.slice(2).toSorted(), ['failed rejected', 'first resolved', 'second resolved']);
});

test('write: a write that does not fit on the disk is rejected, the others of its transaction succeed', async (t) => {
  const { database, add, committed } = openNumbers(t);
  database.query('PRAGMA max_page_count = 20').get();
  const large = 'x'.repeat(1_000_000);
  const results = await Promise.allSettled([add(1), add(2, large), add(3)]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  await assert.rejects(add(4, large), { code: 'unavailable', message: /nothing was changed: .*full/ });
  await add(5);
  assert.deepEqual(committed(), [1, 3, 5]);
});

test('write: writes are rejected while another process locks the database, and succeed afterwards', async (t) => {
  const { database, outside, add, committed } = openNumbers(t);
  database.query('PRAGMA busy_timeout = 0').get();
  outside.exec('BEGIN IMMEDIATE');
  for (const refused of [add(1), add(2)]) await assert.rejects(refused, { code: 'unavailable', message: /locked/ });
  outside.exec('ROLLBACK');
  await add(3);
  assert.deepEqual(committed(), [3]);
});

test('close: pending writes are completed, later ones are rejected', async (t) => {
  const { database, add, committed } = openNumbers(t);
  const begun = [add(1), add(2)];
  database.close();
  database.close();
  await Promise.all(begun);
  assert.deepEqual(committed(), [1, 2]);
  await assert.rejects(add(3), { code: 'unavailable' });
});

test('open: the database uses WAL, synchronous=NORMAL and foreign keys', (t) => {
  const { database } = openNumbers(t);
  const pragma = (name: string) => Object.values(database.query<object>(`PRAGMA ${name}`).get() ?? {});
  assert.deepEqual(pragma('journal_mode'), ['wal']);
  assert.deepEqual(pragma('synchronous'), [1]);
  assert.deepEqual(pragma('foreign_keys'), [1]);
});

test('open: only the owner can read the files', (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  const database = new Database(path);
  t.after(() => database.close());
  for (const file of [path, `${path}-wal`, `${path}-shm`]) assert.equal(statSync(file).mode & 0o777, 0o600, file);
});

test('migration: each missing step is applied, and the data is kept', async (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  const old = new Database(path, NUMBERS);
  old.query("INSERT INTO numbers VALUES (1, 'one')").run();
  old.close();
  const steps = [...NUMBERS, 'ALTER TABLE numbers ADD COLUMN a TEXT', "UPDATE numbers SET a = text || '!'"];
  for (let opened = 0; opened < 2; opened++) {
    const database = new Database(path, steps);
    const row = database.query<object>('SELECT n, text, a FROM numbers').get();
    assert.deepEqual({ ...row }, { n: 1, text: 'one', a: 'one!' });
    database.close();
  }
});

test('migration: a failed step leaves the database as it was after the last successful step', (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  const steps = [...NUMBERS, 'CREATE TABLE good (n)', 'CREATE TABLE half (n); INSERT INTO nowhere VALUES (1)'];
  assert.throws(() => new Database(path, steps), { code: 'unusable', message: /test\.db cannot be opened: .*nowhere/ });
  const database = new Database(path, steps.slice(0, 2));
  t.after(() => database.close());
  const tables = database.query<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
  assert.deepEqual(
    tables.all().map(({ name }) => name),
    ['good', 'numbers'],
  );
});

test('migration: a database of a later version is rejected unchanged', (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  new Database(path, [...NUMBERS, 'CREATE TABLE later (n)']).close();
  assert.throws(() => new Database(path, NUMBERS), {
    code: 'newer',
    message: /schema 2.*knows up to 1.*start that one/,
  });
  new Database(path, [...NUMBERS, 'never run']).close();
});

test('open: the error for a file that is not a database names it', (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  writeFileSync(path, 'not a database, but long enough to look at '.repeat(100));
  assert.throws(() => new Database(path), { code: 'damaged', message: /test\.db is damaged: .*not a database/ });
});
