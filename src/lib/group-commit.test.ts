import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { GroupCommit } from './group-commit.ts';
import { type Log, LogFile } from './log-file.ts';

/** A disk that is as slow as a test wants it to be. */
class HeldLog implements Log {
  #done: ((error: Error | null) => void) | undefined;
  /** How often it was asked, on which way. */
  readonly asked: ('beside' | 'now')[] = [];

  sync(done: (error: Error | null) => void): void {
    this.asked.push('beside');
    this.#done = done;
  }

  syncNow(): void {
    this.asked.push('now');
  }

  end(error: Error | null = null): void {
    const done = this.#done;
    assert.ok(done, 'nothing is on its way');
    this.#done = undefined;
    done(error);
  }
}

function temporaryDirectory(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-group-commit-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

const unavailable = (message: string, options: ErrorOptions) => new Error(message, options);

function openNumbers(t: TestContext) {
  const database = new DatabaseSync(':memory:');
  t.after(() => database.close());
  database.exec('CREATE TABLE numbers (n INTEGER PRIMARY KEY)');
  const log = new HeldLog();
  const writes = new GroupCommit({ database, log, unavailable });
  const insert = database.prepare('INSERT INTO numbers VALUES (?)');
  const all = database.prepare('SELECT n FROM numbers ORDER BY n');
  const events: string[] = [];
  return {
    log,
    writes,
    /** What was told, in order. */
    events,
    add: (n: number) =>
      writes
        .add(
          () => void insert.run(n),
          () => events.push(`${n} committed`),
        )
        .then(
          () => void events.push(`${n} resolved`),
          (error: Error) => void events.push(`${n} ${error.message}`),
        ),
    stored: () => all.all().map((row) => row['n']),
  };
}

/** Five are enough for whatever could happen to have happened. */
async function someTurns(turns = 5): Promise<void> {
  for (let n = 0; n < turns; n++) await turn();
}

function afterTurns(turns: number, next: () => void): void {
  setImmediate(() => (turns > 0 ? afterTurns(turns - 1, next) : next()));
}

test('nobody is told of a write before it is on the disk', async (t) => {
  const { log, events, add, stored } = openNumbers(t);
  const written = add(1);
  await someTurns();
  assert.deepEqual(stored(), [1]);
  assert.deepEqual(events, []);
  log.end();
  await written;
  assert.deepEqual(events, ['1 committed', '1 resolved']);
});

test('a refusal waits as well: what it rests on may not be on the disk', async (t) => {
  const { log, events, add } = openNumbers(t);
  const both = Promise.all([add(1), add(1)]);
  await someTurns();
  assert.deepEqual(events, []);
  log.end();
  await both;
  assert.deepEqual(events.slice(0, 2), ['1 committed', '1 resolved']);
  assert.match(events[2] ?? '', /UNIQUE/);
});

test('what comes while a transaction is on its way waits for it, and then goes together', async (t) => {
  const { log, add, stored } = openNumbers(t);
  const first = add(1);
  await someTurns();
  const others = Promise.all([add(2), add(3)]);
  await someTurns();
  assert.deepEqual(stored(), [1]);
  log.end();
  await first;
  await someTurns();
  assert.deepEqual(stored(), [1, 2, 3]);
  assert.deepEqual(log.asked, ['beside', 'beside']);
  log.end();
  await others;
});

test('after a trip that failed nothing is known, and nothing more is written', async (t) => {
  const { log, writes, events, add, stored } = openNumbers(t);
  const first = add(1);
  await someTurns();
  const second = add(2);
  log.end(new Error('bad sector'));
  await Promise.all([first, second]);
  await add(3);
  const look = 'look after the disk, then start the manager again: bad sector';
  assert.deepEqual(events, [
    `1 the disk failed while it took the change, which may be there or not: ${look}`,
    `2 nothing is written since the disk failed to take a change: ${look}`,
    `3 nothing is written since the disk failed to take a change: ${look}`,
  ]);
  writes.finish();
  assert.deepEqual(stored(), [1]);
});

test('finishing brings everything to the disk before it returns, one transaction after the other', async (t) => {
  const { log, writes, events, add, stored } = openNumbers(t);
  const first = add(1);
  await someTurns();
  const second = add(2);
  writes.finish();
  assert.deepEqual(log.asked, ['beside', 'now', 'now']);
  assert.deepEqual(stored(), [1, 2]);
  assert.deepEqual(events, ['1 committed', '2 committed']);
  log.end();
  await Promise.all([first, second]);
  assert.deepEqual(events.toSorted(), ['1 committed', '1 resolved', '2 committed', '2 resolved']);
});

test('a disk that fails while a real log is brought there is an error', async (t) => {
  const path = join(temporaryDirectory(t), 'broken.db');
  // A device that takes everything and syncs nothing.
  symlinkSync('/dev/null', `${path}-wal`);
  const log = new LogFile(path);
  const database = new DatabaseSync(':memory:');
  t.after(() => {
    log.close();
    database.close();
  });
  const beside = new GroupCommit({ database, log, unavailable });
  await assert.rejects(
    beside.add(() => 1),
    /may be there or not: .*EINVAL/,
  );
  const atTheEnd = new GroupCommit({ database, log, unavailable });
  const written = atTheEnd.add(() => 1);
  atTheEnd.finish();
  await assert.rejects(written, /may be there or not: .*EINVAL/);
});

test('a log that is closed on its way to the disk gets there', async (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  writeFileSync(`${path}-wal`, 'pages');
  const log = new LogFile(path);
  const { promise, resolve } = Promise.withResolvers<Error | null>();
  log.sync(resolve);
  log.close();
  log.close();
  assert.equal(await promise, null);
});

test('what `committed` keeps in memory fits the database whenever a transaction begins, and at the end', async () => {
  const writesOfATurn = fc.array(fc.record({ key: fc.nat(3), fails: fc.boolean() }), { maxLength: 4 });
  const plan = fc.array(fc.record({ writesOfATurn, pause: fc.nat(3), trip: fc.nat(3) }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(plan, async (turns) => {
      using database = new DatabaseSync(':memory:');
      database.exec('CREATE TABLE counters (key INTEGER PRIMARY KEY, n INTEGER)');
      const count = database.prepare(
        'INSERT INTO counters VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n',
      );
      const all = database.prepare('SELECT key, n FROM counters');
      const stored = () => Object.fromEntries(all.all().map((row) => [row['key'], row['n']]));
      const memory: Record<number, unknown> = {};
      const seen: { stored: object; memory: object }[] = [];
      let begins = true;
      let trip = 0;
      const log: Log = {
        sync(done) {
          begins = true;
          afterTurns(trip, () => done(null));
        },
        syncNow: () => assert.fail('nobody has asked for that'),
      };
      const writes = new GroupCommit({ database, log, unavailable });
      const write = (key: number, fails: boolean) =>
        writes.add(
          () => {
            if (begins) seen.push({ stored: stored(), memory: { ...memory } });
            begins = false;
            const n = count.get(key)?.['n'];
            if (fails) throw new Error('no');
            return n;
          },
          (n) => {
            memory[key] = n;
          },
        );
      const results: Promise<unknown>[] = [];
      for (const step of turns) {
        trip = step.trip;
        results.push(...step.writesOfATurn.map(({ key, fails }) => write(key, fails).catch(() => undefined)));
        await someTurns(step.pause);
      }
      await Promise.all(results);
      seen.push({ stored: stored(), memory });
      for (const each of seen) assert.deepEqual(each.stored, each.memory);
    }),
  );
});

test('full disk: a write that has no room is refused, and its neighbours are written', async (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, 'numbers.db');
  const database = new DatabaseSync(path);
  t.after(() => database.close());
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE texts (text TEXT UNIQUE)');
  // SQLite says of a file that must not grow what it says of a disk that is full.
  database.exec('PRAGMA max_page_count = 10');
  const log = new LogFile(path);
  t.after(() => log.close());
  const writes = new GroupCommit({ database, log, unavailable });
  // A statement of several rows that may fail: SQLite undoes it alone, and the transaction goes on.
  const insert = database.prepare("INSERT INTO texts SELECT ? || value FROM json_each('[1, 2]')");
  const put = (text: string) => writes.add(() => void insert.run(text));
  const [first, second, third] = await Promise.allSettled([put('one'), put('x'.repeat(100_000)), put('two')]);
  assert.deepEqual([first?.status, third?.status], ['fulfilled', 'fulfilled']);
  assert.match(String(second?.status === 'rejected' && second.reason), /did not take the change.*full/);
  const texts = database.prepare('SELECT text FROM texts').all();
  assert.deepEqual(
    texts.map(({ text }) => text),
    ['one1', 'one2', 'two1', 'two2'],
  );
});
