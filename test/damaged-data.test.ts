import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { closeSync, cpSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { OscarError } from '../src/lib/oscar-error.ts';
import { Outside, service } from './support/jobs.ts';
import { ADMIN, startTestManager, temporaryDirectory } from './support/manager.ts';
import { startProcess } from './support/process.ts';

/** A manager whose data is damaged does not start, and says in one sentence what to do. */

function overwrite(path: string, at: number, bytes: number): void {
  const file = openSync(path, 'r+');
  writeSync(file, randomBytes(bytes), 0, bytes, at);
  closeSync(file);
}

describe('damaged data', () => {
  /** Data directories of two managers: the first was stopped, the second was killed. */
  const [stopped, killed] = [temporaryDirectory(), temporaryDirectory()];
  const copies: string[] = [];

  before(async () => {
    const cleanUps: (() => void)[] = [];
    const { child, listening, ended } = startProcess(
      { after: (work) => void cleanUps.push(work as () => void) },
      killed,
    );
    const outside = new Outside(await listening);
    await outside.create(ADMIN, service('kept', 'true'));
    await outside.put(ADMIN, 'kept/other', 'content');
    child.kill('SIGKILL');
    await ended;
    cpSync(killed, stopped, { recursive: true });
    const manager = await startTestManager({}, stopped);
    await manager.stop();
  });
  after(() => {
    for (const path of [stopped, killed, ...copies]) rmSync(path, { recursive: true, force: true });
  });

  const copyOf = (directory: string) => {
    const copy = temporaryDirectory();
    copies.push(copy);
    cpSync(directory, copy, { recursive: true });
    return copy;
  };

  const cases: readonly [name: string, from: string, harm: (path: string) => void, sentence: RegExp][] = [
    [
      'a missing log',
      killed,
      (path) => rmSync(join(path, 'manager.db-wal')),
      /manager\.db-wal is missing, .*put it back/,
    ],
    [
      'a missing log of the store',
      killed,
      (path) => rmSync(join(path, 'objects/objects.db-wal')),
      /objects\.db-wal is missing/,
    ],
    [
      'a missing database',
      stopped,
      (path) => rmSync(join(path, 'manager.db')),
      /manager\.db is missing or empty.*restore/,
    ],
    [
      'an empty database',
      stopped,
      (path) => writeFileSync(join(path, 'manager.db'), ''),
      /manager\.db is missing or empty/,
    ],
    ['a missing store', stopped, (path) => rmSync(join(path, 'objects/objects.db')), /objects\.db is missing or empty/],
    [
      'damaged pages',
      stopped,
      (path) => overwrite(join(path, 'manager.db'), 8192, statSync(join(path, 'manager.db')).size - 8192),
      /manager\.db is damaged: restore .* \(SQLite: /,
    ],
    [
      'damaged pages of the store',
      stopped,
      (path) => overwrite(join(path, 'objects/objects.db'), 8192, 65_536),
      /objects\.db is damaged: restore/,
    ],
    [
      'a file that is no database',
      stopped,
      (path) => overwrite(join(path, 'manager.db'), 0, 512),
      /manager\.db is damaged/,
    ],
    [
      'another key',
      stopped,
      (path) => writeFileSync(join(path, 'secret.key'), randomBytes(32)),
      /secret\.key is not the key .*: restore it from a backup/,
    ],
    ['a missing key', stopped, (path) => rmSync(join(path, 'secret.key')), /secret\.key is missing/],
    [
      'data of a newer version',
      stopped,
      (path) => {
        using database = new DatabaseSync(join(path, 'manager.db'));
        database.exec('PRAGMA user_version = 999');
      },
      /schema 999.*start that one/,
    ],
  ];
  for (const [name, from, harm, sentence] of cases) {
    test(`damaged data: ${name} is refused with a sentence`, async () => {
      const copy = copyOf(from);
      harm(copy);
      await assert.rejects(startTestManager({}, copy), (error: Error) => {
        assert.ok(error instanceof OscarError, error.stack);
        assert.match(error.message, sentence);
        assert.ok(!error.message.includes('\n'));
        return true;
      });
    });
  }

  test('damaged data: of a cluster with another id is refused, and nothing of it changes', async () => {
    const copy = copyOf(stopped);
    const other = startTestManager({ OSCAR_CLUSTER_ID: 'another' }, copy);
    await assert.rejects(other, {
      name: 'DataDirectoryError',
      code: 'other-cluster',
      message: `${copy} has the data of the cluster "oscar-cluster", and OSCAR_CLUSTER_ID is "another": set OSCAR_CLUSTER_ID to "oscar-cluster", or OSCAR_DATA_DIR to another directory`,
    });
    const manager = await startTestManager({}, copy);
    assert.equal(await new Outside(manager.url).get(ADMIN, 'kept/other'), 'content');
    await manager.stop();
  });

  test('damaged data: the process exits with 1 and prints the sentence, without a stack', async (t) => {
    const copy = copyOf(killed);
    rmSync(join(copy, 'manager.db-wal'));
    const { ended, output } = startProcess(t, copy);
    assert.equal(await ended, 1);
    assert.match(output(), /^oscar: .*manager\.db-wal is missing, [^\n]*\n$/m);
    assert.ok(!output().includes('    at '), output());
  });

  test('damaged data: the mark can be removed to start without the lost changes', async () => {
    const copy = copyOf(killed);
    rmSync(join(copy, 'manager.db-wal'));
    rmSync(join(copy, 'manager.db-in-use'));
    // What is left may be an older state: the manager starts, or says what is wrong with it.
    const manager = await startTestManager({}, copy).catch((error: unknown) => {
      assert.ok(error instanceof OscarError, String(error));
      return undefined;
    });
    await manager?.stop();
  });

  test('damaged data: a manager that was killed starts with everything', async () => {
    const manager = await startTestManager({}, copyOf(killed));
    const outside = new Outside(manager.url);
    assert.equal(await outside.get(ADMIN, 'kept/other'), 'content');
    await manager.stop();
  });
});
