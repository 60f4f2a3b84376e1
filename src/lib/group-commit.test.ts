import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { GroupCommit, type Log, LogFile } from './group-commit.ts';

/** A log whose sync ends when the test says so. */
class HeldLog implements Log {
  #done: ((error: Error | null) => void) | undefined;
  /** The syncs that were requested, in order. */
  readonly syncs: ('async' | 'now')[] = [];

  sync(done: (error: Error | null) => void): void {
    this.syncs.push('async');
    this.#done = done;
  }

  syncNow(): void {
    this.syncs.push('now');
  }

  end(error: Error | null = null): void {
    const done = this.#done;
    assert.ok(done, 'no sync is in progress');
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
    /** What callers were notified of, in order. */
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

/** Five turns of the event loop are enough for everything that can happen without a sync. */
async function someTurns(turns = 5): Promise<void> {
  for (let n = 0; n < turns; n++) await turn();
}

function afterTurns(turns: number, next: () => void): void {
  setImmediate(() => (turns > 0 ? afterTurns(turns - 1, next) : next()));
}

test('group commit: a write is not reported before it is on the disk', async (t) => {
  const { log, events, add, stored } = openNumbers(t);
  const written = add(1);
  await someTurns();
  assert.deepEqual(stored(), [1]);
  assert.deepEqual(events, []);
  log.end();
  await written;
  assert.deepEqual(events, ['1 committed', '1 resolved']);
});

test('group commit: a rejection also waits for the sync, because its reason may not be on the disk yet', async (t) => {
  const { log, events, add } = openNumbers(t);
  const both = Promise.all([add(1), add(1)]);
  await someTurns();
  assert.deepEqual(events, []);
  log.end();
  await both;
  assert.deepEqual(events.slice(0, 2), ['1 committed', '1 resolved']);
  assert.match(events[2] ?? '', /UNIQUE/);
});

test('group commit: writes that arrive during a sync become one transaction after it', async (t) => {
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
  assert.deepEqual(log.syncs, ['async', 'async']);
  log.end();
  await others;
});

test('group commit: after a failed sync the outcome is reported as unknown, and nothing more is written', async (t) => {
  const { log, writes, events, add, stored } = openNumbers(t);
  const first = add(1);
  await someTurns();
  const second = add(2);
  log.end(new Error('bad sector'));
  await Promise.all([first, second]);
  await add(3);
  const advice = 'check the disk, then restart the manager: bad sector';
  assert.deepEqual(events, [
    `1 the disk failed during the write, and the change may or may not be stored: ${advice}`,
    `2 the manager writes no changes since the disk failed: ${advice}`,
    `3 the manager writes no changes since the disk failed: ${advice}`,
  ]);
  writes.finish();
  assert.deepEqual(stored(), [1]);
});

test('group commit: finish writes and syncs everything before it returns, one transaction after the other', async (t) => {
  const { log, writes, events, add, stored } = openNumbers(t);
  const first = add(1);
  await someTurns();
  const second = add(2);
  writes.finish();
  assert.deepEqual(log.syncs, ['async', 'now', 'now']);
  assert.deepEqual(stored(), [1, 2]);
  assert.deepEqual(events, ['1 committed', '2 committed']);
  log.end();
  await Promise.all([first, second]);
  assert.deepEqual(events.toSorted(), ['1 committed', '1 resolved', '2 committed', '2 resolved']);
});

test('log file: a sync that the disk rejects is an error', async (t) => {
  const path = join(temporaryDirectory(t), 'broken.db');
  // A device that accepts all writes and cannot be synced.
  symlinkSync('/dev/null', `${path}-wal`);
  const log = new LogFile(path);
  const database = new DatabaseSync(':memory:');
  t.after(() => {
    log.close();
    database.close();
  });
  const running = new GroupCommit({ database, log, unavailable });
  await assert.rejects(
    running.add(() => 1),
    /may or may not be stored: .*EINVAL/,
  );
  const finishing = new GroupCommit({ database, log, unavailable });
  const written = finishing.add(() => 1);
  finishing.finish();
  await assert.rejects(written, /may or may not be stored: .*EINVAL/);
});

test('log file: closing it during a sync does not break the sync', async (t) => {
  const path = join(temporaryDirectory(t), 'test.db');
  writeFileSync(`${path}-wal`, 'pages');
  const log = new LogFile(path);
  const { promise, resolve } = Promise.withResolvers<Error | null>();
  log.sync(resolve);
  log.close();
  log.close();
  assert.equal(await promise, null);
});

test('group commit: what `committed` keeps in memory equals the database when a transaction begins, and at the end', async () => {
  const writesOfATurn = fc.array(fc.record({ key: fc.nat(3), fails: fc.boolean() }), { maxLength: 4 });
  const plan = fc.array(fc.record({ writesOfATurn, pause: fc.nat(3), syncTurns: fc.nat(3) }), { maxLength: 12 });
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
      let syncTurns = 0;
      const log: Log = {
        sync(done) {
          begins = true;
          afterTurns(syncTurns, () => done(null));
        },
        syncNow: () => assert.fail('a sync on this thread was requested'),
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
        syncTurns = step.syncTurns;
        results.push(...step.writesOfATurn.map(({ key, fails }) => write(key, fails).catch(() => undefined)));
        await someTurns(step.pause);
      }
      await Promise.all(results);
      seen.push({ stored: stored(), memory });
      for (const each of seen) assert.deepEqual(each.stored, each.memory);
    }),
  );
});

test('full disk: a write that needs more space is rejected, and the other writes of its batch are stored', async (t) => {
  const directory = temporaryDirectory(t);
  const path = join(directory, 'numbers.db');
  const database = new DatabaseSync(path);
  t.after(() => database.close());
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE texts (text TEXT UNIQUE)');
  // For a file that must not grow, SQLite reports the same error as for a full disk.
  database.exec('PRAGMA max_page_count = 10');
  const log = new LogFile(path);
  t.after(() => log.close());
  const writes = new GroupCommit({ database, log, unavailable });
  // If a statement with several rows fails, SQLite undoes that statement alone and continues the transaction.
  const insert = database.prepare("INSERT INTO texts SELECT ? || value FROM json_each('[1, 2]')");
  const put = (text: string) => writes.add(() => void insert.run(text));
  const [first, second, third] = await Promise.allSettled([put('one'), put('x'.repeat(100_000)), put('two')]);
  assert.deepEqual([first?.status, third?.status], ['fulfilled', 'fulfilled']);
  assert.match(String(second?.status === 'rejected' && second.reason), /rejected the change.*full/);
  const texts = database.prepare('SELECT text FROM texts').all();
  assert.deepEqual(
    texts.map(({ text }) => text),
    ['one1', 'one2', 'two1', 'two2'],
  );
});
