import type { IssuerAliases } from '../../identity/index.ts';
import { type FederationOrigin, ownedBy, type Service } from '../../model/service/index.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import { admit, loadSecrets, ServicesError, toSecretsOwner } from '../../services/index.ts';
import { parseWorker, withOwnUids } from './create-worker.ts';
import { swapSecrets } from './original-service.ts';
import { rejectEnded } from './tombstones.ts';
import { isWorkerWithKey, UNFINISHED, type WorkerRecord, type Workers, WRITE_ATTEMPTS } from './worker-role.ts';

/** The new state of a worker. */
export interface WorkerChange {
  readonly revision: number;
  readonly digest: string;
  readonly definition: unknown;
  /** The coordinator's current address. */
  readonly origin?: FederationOrigin;
  /** The issuers of the uids in the definition. */
  readonly issuers?: IssuerAliases;
}

/**
 * Applies a change of the coordinator, which has the worker's key. A change that is already stored is a no-op, and one that
 * is older than the stored revision is rejected. The digest is written last, so the coordinator repeats a change that was
 * interrupted.
 */
export async function updateWorker(name: string, change: WorkerChange, keyId: string, workers: Workers): Promise<void> {
  const read = parseWorker(withOwnUids(change.definition, change.issuers, workers.catalog), name);
  // A change is two writes. Concurrent changes would keep failing between the two, so they run one after another.
  const turns = updatesInProgress(workers);
  const before = turns.get(name);
  const mine = (async () => {
    await before?.catch(() => undefined);
    await applyUpdate(name, change, read, keyId, workers);
  })();
  turns.set(name, mine);
  try {
    await mine;
  } finally {
    if (turns.get(name) === mine) turns.delete(name);
  }
}

/** Changes in progress in this process, by worker. They only avoid retries; versions decide which change wins. */
const inProgress = new WeakMap<Workers, Map<string, Promise<void>>>();

function updatesInProgress(workers: Workers): Map<string, Promise<void>> {
  const turns = inProgress.get(workers) ?? new Map<string, Promise<void>>();
  inProgress.set(workers, turns);
  return turns;
}

async function applyUpdate(
  name: string,
  change: WorkerChange,
  read: ReturnType<typeof parseWorker>,
  keyId: string,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    await rejectEnded(keyId, catalog);
    const record = await catalog.services.get(name);
    if (!isWorkerWithKey(record, keyId))
      throw new ServicesError('not-found', `there is no worker "${name}" with this key`);
    if (isUpToDate(record, change)) return;
    const { service } = record;
    const definition = ownedBy({ ...read.definition, vo: service.definition.vo }, service.owner);
    const stored = { definition: service.definition, secrets: await loadSecrets(toSecretsOwner(service), catalog) };
    const secrets = await admit(definition, read.secrets, stored, catalog, service);
    try {
      const half = await catalog.services.replace(
        withRevision({ ...service, definition }, change, UNFINISHED),
        record.version,
      );
      await swapSecrets(half, secrets, catalog);
      await catalog.services.replace(withRevision(half.service, change, change.digest), half.version);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
  throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
}

/** Throws `conflict` if the worker already has a later revision. */
function isUpToDate({ service }: WorkerRecord, { revision, digest }: WorkerChange): boolean {
  const { federation } = service;
  if (revision >= federation.revision) return revision === federation.revision && digest === federation.digest;
  throw new StoreError(
    'conflict',
    `"${service.definition.name}" already has revision ${federation.revision}; ${revision} is older`,
  );
}

function withRevision(service: Service, { revision, origin }: WorkerChange, digest: string): Service {
  if (service.federation?.role !== 'worker') return service;
  return { ...service, federation: { ...service.federation, revision, digest, ...(origin && { origin }) } };
}
