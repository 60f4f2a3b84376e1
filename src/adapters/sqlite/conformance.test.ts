import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { Seal } from '../../lib/secret.ts';
import { describeJournal } from '../../ports/conformance/journal.conformance.ts';
import { describeSecretStore } from '../../ports/conformance/secret-store.conformance.ts';
import { describeServiceStore } from '../../ports/conformance/service-store.conformance.ts';
import { describeSettingsStore } from '../../ports/conformance/settings-store.conformance.ts';
import { Database } from './database.ts';
import { LocalJournal, LocalSecretStore, LocalSettingsStore } from './key-value-stores.ts';
import { LocalServiceStore } from './local-service-store.ts';
import { makeUnreliable } from './unreliable-service-store.fixture.ts';

/** So small that every list has several pages and every second read misses the cache. */
const PAGE = 3;
const CACHE = { records: 2, characters: 5_000 };

describeServiceStore('SQLite', async () => openServices());
describeServiceStore('SQLite with a tiny cache', async () => openServices(CACHE));
for (const seed of [1, 2, 3]) {
  describeServiceStore(`SQLite made unruly with seed ${seed}`, async () => {
    const opened = openServices();
    return { ...opened, store: makeUnreliable(opened.store, seededRandom(seed)) };
  });
}

describeSecretStore('SQLite', async () => {
  const { database, seal, close } = openDatabase();
  return { store: new LocalSecretStore(database, seal, PAGE), close };
});

describeJournal('SQLite', async () => {
  const { database, close } = openDatabase();
  return { journal: new LocalJournal(database, PAGE), close };
});

describeSettingsStore('SQLite', async () => {
  const { database, close } = openDatabase();
  return { store: new LocalSettingsStore(database), close };
});

function openServices(cache?: typeof CACHE) {
  const { database, seal, close } = openDatabase();
  let now = 1_700_000_000_000;
  const store = new LocalServiceStore(database, seal, { now: () => now, ...(cache && { cache }) });
  const advance = (milliseconds: number) => {
    now += milliseconds;
  };
  return { store, advance, close: () => (store.close(), close()) };
}

function openDatabase() {
  const directory = makeTemporaryDirectory();
  const database = new Database(join(directory, 'manager.db'));
  const close = () => {
    database.close();
    removeTemporaryDirectory(directory);
  };
  return { database, seal: new Seal(randomBytes(32)), close };
}
