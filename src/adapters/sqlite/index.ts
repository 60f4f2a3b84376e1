import type { Seal } from '../../lib/secret.ts';
import type { JobStore, Journal, SecretStore, ServiceStore, SettingsStore } from '../../ports/index.ts';
import { DataDirectoryError, lockDataDirectory } from './data-directory.ts';
import { Database } from './database.ts';
import { LocalJournal, LocalSecretStore, LocalSettingsStore } from './key-value-stores.ts';
import { LocalJobStore } from './local-job-store.ts';
import { LocalServiceStore } from './local-service-store.ts';
import { openSeal } from './sealing-key.ts';

export interface LocalCluster {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly settings: SettingsStore;
  readonly jobs: JobStore;
  /** Encrypts what other parts of the manager store in the same directory. */
  readonly seal: Seal;
  /** Why nothing can be written any more until a restart. */
  readonly problem: () => string | undefined;
  /** Completes the writes that were begun, and unlocks the directory. */
  readonly close: () => Promise<void>;
}

export interface LocalClusterOptions {
  directory: string;
  /** Data of a cluster with another id is rejected. Absent: it is not checked. */
  clusterId?: string;
  now?: () => number;
}

/** The stores of a one-machine cluster: one database in one directory, which no other process may use. */
export function openLocalCluster({ directory, clusterId, now = Date.now }: LocalClusterOptions): LocalCluster {
  using opened = new DisposableStack();
  const held = opened.adopt(lockDataDirectory(directory), (data) => data.release());
  const database = opened.adopt(new Database(held.file('manager.db'), undefined, held.file('secret.key')), (file) =>
    file.close(),
  );
  const seal = openSeal(held, database);
  if (clusterId !== undefined) claimForCluster(clusterId, directory, database);
  // No other process uses the directory, so the reservations in it belong to requests that died with an earlier manager.
  if (database.query('SELECT 1 FROM reservations LIMIT 1').get()) database.query('DELETE FROM reservations').run();
  const services = opened.adopt(new LocalServiceStore(database, seal, { now }), (store) => store.close());
  const secrets = new LocalSecretStore(database, seal);
  const journal = new LocalJournal(database);
  const settings = new LocalSettingsStore(database);
  const jobs = new LocalJobStore(database, { now });

  const closing = opened.move();
  const problem = () => database.problem;
  return { services, secrets, journal, settings, jobs, seal, problem, close: async () => closing.dispose() };
}

/**
 * Stores the id at the first start. Records of jobs and federations contain the id: with another one, this manager would take
 * its own jobs and workers for those of another cluster.
 */
function claimForCluster(clusterId: string, directory: string, database: Database): void {
  const found = database.query<{ cluster_id: string }>('SELECT cluster_id FROM cluster').get()?.cluster_id;
  if (found === undefined) database.query('INSERT INTO cluster (row, cluster_id) VALUES (1, ?)').run(clusterId);
  else if (found !== clusterId) {
    throw new DataDirectoryError(
      'other-cluster',
      `${directory} has the data of the cluster "${found}", and OSCAR_CLUSTER_ID is "${clusterId}": set OSCAR_CLUSTER_ID to ` +
        `"${found}", or OSCAR_DATA_DIR to another directory`,
    );
  }
}
