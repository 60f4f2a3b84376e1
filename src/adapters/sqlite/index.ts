import type { Seal } from '../../lib/seal.ts';
import type { JobStore, Journal, SecretStore, ServiceStore, SettingsStore } from '../../ports/index.ts';
import { holdDataDirectory } from './data-directory.ts';
import { Database } from './database.ts';
import { LocalJobStore } from './job-store.ts';
import { LocalJournal } from './journal.ts';
import { openSeal } from './sealing-key.ts';
import { LocalSecretStore } from './secret-store.ts';
import { LocalServiceStore } from './service-store.ts';
import { LocalSettingsStore } from './settings-store.ts';

export interface LocalCluster {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly settings: SettingsStore;
  readonly jobs: JobStore;
  /** Seals what others keep in the same directory. */
  readonly seal: Seal;
  /** Finishes what was begun and gives the directory back. */
  readonly close: () => Promise<void>;
}

export interface LocalClusterOptions {
  directory: string;
  now?: () => number;
}

/** The stores of a cluster that is this machine: one database in one directory, which it has to itself. */
export function openLocalCluster({ directory, now = Date.now }: LocalClusterOptions): LocalCluster {
  using opened = new DisposableStack();
  const held = opened.adopt(holdDataDirectory(directory), (data) => data.release());
  const database = opened.adopt(new Database(held.file('manager.db')), (file) => file.close());
  const seal = openSeal(held, database);
  // The directory is ours alone, so whoever reserved a name and did not use it is gone.
  database.query('DELETE FROM reservations').run();
  const services = opened.adopt(new LocalServiceStore(database, seal, { now }), (store) => store.close());
  const secrets = new LocalSecretStore(database, seal);
  const journal = new LocalJournal(database);
  const settings = new LocalSettingsStore(database);
  const jobs = new LocalJobStore(database, { now });

  const closing = opened.move();
  return { services, secrets, journal, settings, jobs, seal, close: async () => closing.dispose() };
}
