import type { Admin, User } from '../../identity/index.ts';
import { allSettled } from '../../lib/concurrency.ts';
import type { Version } from '../../lib/version.ts';
import { type Definition, type DefinitionSecrets, ownedBy, type Service } from '../../model/service/index.ts';
import { memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import { isRace, type ServiceRecord } from '../../ports/index.ts';
import { admit, type Services, ServicesError, toStorageClaim } from '../../services/index.ts';
import { isOwner } from '../ownership.ts';
import { definitionIn, nameTaken, parseWorker } from './create-worker.ts';
import { storeMemberKey } from './member-key.ts';
import { saveOriginal, swapSecrets } from './original-service.ts';
import { completeIntent, rollBackIntent } from './recover-workers.ts';
import { rejectEnded, requireRegistered } from './tombstones.ts';
import { beginWorkerIntent, type WorkerIntent, waitForWorkerIntent } from './worker-intent.ts';
import { isWorkerWithKey, toWorkerRole, UNFINISHED, type Workers } from './worker-role.ts';

/**
 * Turns a service of the caller into a worker, if the service still has the version that the caller saw. The original
 * definition is saved first. It is restored when the federation ends, or if this manager stops before the adoption is
 * complete. Buckets and token stay, and running jobs continue.
 */
export async function adoptWorker(
  principal: Admin | User,
  order: WorkerOrder,
  version: Version,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  const keyId = memberKeyId(order.key);
  for (;;) {
    await rejectEnded(keyId, catalog);
    const record = await catalog.services.get(order.name);
    if (isWorkerWithKey(record, keyId)) {
      if (await waitForWorkerIntent(keyId, catalog)) continue;
      return;
    }
    const before = requireAdoptable(principal, record, order.name, version);
    await requireRegistered(keyId, order.name, catalog);
    const adoption = await plan(before, order, workers);
    const work = await beginWorkerIntent(keyId, order, catalog);
    if (work !== 'busy') return adopt(adoption, version, work, workers);
    await waitForWorkerIntent(keyId, catalog);
  }
}

interface Adoption {
  readonly before: Service;
  readonly order: WorkerOrder;
  readonly definition: Definition;
  readonly secrets: DefinitionSecrets;
}

/** Everything that can reject the order is checked before anything is changed. */
async function plan(before: Service, order: WorkerOrder, workers: Workers): Promise<Adoption> {
  const { catalog } = workers;
  const read = parseWorker(definitionIn(order, workers), order.name);
  const definition = ownedBy({ ...read.definition, vo: before.definition.vo }, before.owner);
  const federation = toWorkerRole(order, { adopted: true, digest: order.digest });
  return {
    before,
    order,
    definition,
    secrets: await admit(definition, read.secrets, undefined, catalog, { federation }),
  };
}

async function adopt(
  { before, order, definition, secrets }: Adoption,
  version: Version,
  work: WorkerIntent,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  const as = (service: Service, digest: string): Service => ({
    ...service,
    federation: toWorkerRole(order, { adopted: true, digest }),
  });
  try {
    // A release writes its tombstone before it looks for the intent, so a tombstone must be checked after the intent is
    // written.
    await rejectEnded(work.keyId, catalog);
    await storeMemberKey(work.keyId, order, catalog);
    await saveOriginal(work.keyId, before, catalog);
    const half = await catalog.services.replace(as({ ...before, definition }, UNFINISHED), version);
    await swapSecrets(half, secrets, catalog);
    await endSubscriptions(before, catalog);
    await catalog.services.replace(as(half.service, order.digest), half.version);
  } catch (error) {
    await rollBackIntent(work, workers);
    throw isRace(error) ? versionChanged(order.name) : error;
  }
  await completeIntent(work, workers);
}

function requireAdoptable(
  principal: Admin | User,
  record: ServiceRecord | undefined,
  name: string,
  version: Version,
): Service {
  if (!record) throw versionChanged(name);
  if (!isOwner(principal, record.service) || record.service.federation) throw nameTaken(name);
  if (record.version !== version) throw versionChanged(name);
  return record.service;
}

/** Runs after the role is stored: from then on, events of these prefixes no longer belong to this service. */
async function endSubscriptions(before: Service, { objects }: Services): Promise<void> {
  if (!objects) return;
  await allSettled(toStorageClaim(before).subscriptions.map((subscription) => objects.unsubscribe(subscription)));
}

const versionChanged = (name: string) =>
  new ServicesError('old-version', `"${name}" has changed since it was probed: probe it again before adopting it`);
