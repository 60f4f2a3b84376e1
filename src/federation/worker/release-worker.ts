import { setTimeout as pause } from 'node:timers/promises';
import type { Admin, User } from '../../identity/index.ts';
import { allSettled } from '../../lib/concurrency.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import type { Version } from '../../lib/version.ts';
import type { Service } from '../../model/service/index.ts';
import { FederationError } from '../../peers/index.ts';
import { isRace, StoreError } from '../../ports/index.ts';
import {
  findRemovable,
  oldVersion,
  provisionProviderBuckets,
  provisionStorage,
  releaseStorage,
  removeRecord,
  type Services,
  ServicesError,
  toStorageClaim,
} from '../../services/index.ts';
import { CONTACT_RESOLUTION, deleteMemberData, forgetContact, lastContact } from './member-key.ts';
import { loadOriginal, swapSecrets } from './original-service.ts';
import {
  closeTombstone,
  confirmTombstone,
  type Ending,
  isRegistered,
  rememberEndedWorker,
  writeTombstone,
} from './tombstones.ts';
import { hasWorkerIntent, type WorkerIntent, waitForWorkerIntent } from './worker-intent.ts';
import {
  federationGuard,
  isWorker,
  isWorkerInFederation,
  isWorkerWithKey,
  UNFINISHED,
  type WorkerRecord,
  type Workers,
  WRITE_ATTEMPTS,
} from './worker-role.ts';

/**
 * The coordinator ends a worker with its key. A worker that it created is deleted and an adopted one is restored; or, with
 * `detach`, the worker stays as a plain service. The tombstone is written first, even if there is nothing to end: a create
 * with a registered key may still be in flight.
 */
export async function releaseWorker(
  name: string,
  ending: 'undo' | 'detach',
  keyId: string,
  workers: Workers,
): Promise<void> {
  const { catalog } = workers;
  const stray = !isWorkerWithKey(await catalog.services.get(name), keyId) && !(await hasWorkerIntent(keyId, catalog));
  // No create with this key can succeed, so there is nothing to remember. The caller may have invented the key.
  if (stray && !(await isRegistered(keyId, catalog))) return;
  await writeTombstone(keyId, { service: name, reason: 'ended-by-coordinator', ending, stray }, catalog);
  await endWorker({ name, ending, keyId }, workers);
}

/** A few times as long as a restore takes. Shorter pauses collide again; longer ones only delay the caller. */
const LONGEST_PAUSE = 50;

interface EndRequest {
  readonly name: string;
  readonly ending: Ending;
  readonly keyId: string;
  /** The intent of the request that is creating the worker and found the tombstone. */
  readonly work?: WorkerIntent;
}

/**
 * Carries out a tombstone. Calling it again is a no-op. If a request is creating the worker right now, that request finds
 * the tombstone and ends the worker; other callers wait for it, because concurrent restores only conflict with each other.
 */
export async function endWorker({ name, ending, keyId, work }: EndRequest, { catalog }: Workers): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    if (!work) await waitForWorkerIntent(keyId, catalog);
    const record = await catalog.services.get(name);
    if (!isWorkerWithKey(record, keyId)) break;
    if (attempt > WRITE_ATTEMPTS)
      throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
    await confirmTombstone(keyId, catalog);
    await rememberEndedWorker(record.service.federation.uid, name, catalog);
    await forgetContact(record.service.federation.uid, name, catalog);
    if (await end(record, ending, catalog)) break;
    // Random, so that two such requests do not conflict forever.
    await pause(Math.random() * LONGEST_PAUSE);
  }
  await deleteMemberData(keyId, catalog);
  await closeTombstone(keyId, catalog);
}

function end(record: WorkerRecord, ending: Ending, catalog: Services): Promise<boolean> {
  if (ending === 'detach') return detach(record, catalog);
  return record.service.federation.adopted ? restoreOriginal(record, catalog) : removeRecord(record, catalog);
}

/** Makes the worker a plain service, whose paths are in the store of this cluster. */
async function detach({ service, version }: WorkerRecord, catalog: Services): Promise<boolean> {
  const { federation: _, ...rest } = service;
  const alone: Service = { ...rest, definition: withoutMembers(service.definition) };
  // Both run before the role is removed, so that recovery after a crash finds the role and repeats them.
  await provision(alone, catalog);
  await releaseStorage(toStorageClaim(alone), alone, catalog);
  try {
    await catalog.services.replace(alone, version);
    return true;
  } catch (error) {
    if (isRace(error)) return false;
    throw error;
  }
}

/** If a bucket cannot be created, the service has none until its owner updates it or chooses another path. */
async function provision(service: Service, { objects, providers }: Services): Promise<void> {
  if (providers) {
    const without = ignoreCodes('bucket-taken', 'provider-refused', 'provider-unavailable');
    await provisionProviderBuckets(service, providers).catch(without);
  }
  if (objects) await provisionStorage(service, objects).catch(ignoreCodes('bucket-taken'));
}

const ignoreCodes =
  (...codes: readonly string[]) =>
  (error: unknown) => {
    if (!(error instanceof OscarError && codes.includes(error.code))) throw error;
  };

function withoutMembers(definition: Service['definition']): Service['definition'] {
  if (!definition.federation) return definition;
  const { members: _, ...federation } = definition.federation;
  return { ...definition, federation };
}

/**
 * Restores an adopted service. The role is removed last, so that recovery after a crash finds it and starts over. Returns
 * false if another writer was faster.
 */
export async function restoreOriginal(record: WorkerRecord, catalog: Services): Promise<boolean> {
  const { federation, ...service } = record.service;
  const before = await loadOriginal(federation.keyId, catalog);
  if (!before) return originalMissing(record, catalog);
  const { definition, token, secrets } = before;
  const alone: Service = { ...service, definition, token };
  try {
    const fenced = { ...alone, federation: { ...federation, digest: UNFINISHED } };
    const half = await catalog.services.replace(fenced, record.version);
    await swapSecrets(half, secrets, catalog);
    await resubscribe(alone, catalog);
    await catalog.services.replace(alone, half.version);
    return true;
  } catch (error) {
    if (isRace(error)) return false;
    throw error;
  }
}

/** Another request that restored the service has also deleted the saved original. */
async function originalMissing({ service, version }: WorkerRecord, { services }: Services): Promise<false> {
  const { name } = service.definition;
  if ((await services.get(name))?.version !== version) return false;
  throw new StoreError(
    'damaged',
    `the saved definition of "${name}" from before its adoption is lost: detach it from the federation`,
  );
}

/** A bucket that was deleted meanwhile, or belongs to another user now, gets no subscription (S5). */
async function resubscribe(service: Service, { objects }: Services): Promise<void> {
  if (!objects) return;
  const { uid, owner } = service;
  await allSettled(
    toStorageClaim(service).subscriptions.map(async (subscription) => {
      const bucket = await objects.bucket(subscription.bucket);
      if (bucket && (bucket.madeFor?.uid === uid || bucket.owner === owner)) await objects.subscribe(subscription);
    }),
  );
}

/**
 * Removes a worker at the request of its owner. The coordinator's consent is not needed, but the coordinator is notified
 * first. An adopted worker is restored to the plain service that it was; a second delete removes that service. So ending an
 * adoption never loses the original service.
 */
export async function removeOwnWorker(
  principal: Admin | User,
  name: string,
  namespace: string | undefined,
  workers: Workers,
  tell: (worker: WorkerRecord) => Promise<void> = async () => {},
): Promise<void> {
  const { catalog } = workers;
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    const record = await findRemovable(principal, name, namespace, catalog);
    if (isWorker(record)) {
      const { uid, keyId } = record.service.federation;
      await writeTombstone(keyId, { service: name, reason: 'removed-by-owner', ending: 'undo' }, catalog);
      await tell(record);
      await endWorker({ name, ending: 'undo', keyId }, workers);
      // The worker may have been given another key meanwhile, which must be ended too.
      if (isWorkerInFederation(await catalog.services.get(name), uid)) continue;
      return;
    }
    if (await removeRecord(record, catalog)) return;
  }
  throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
}

/**
 * How long a coordinator must be silent before the owner may take its worker over. With a smaller value a manager that is
 * down overnight loses its members; a larger value delays take-over when the coordinator never comes back. The recorded
 * contact may be an hour old.
 */
const TAKE_OVER_AFTER = 24 * 3_600_000 + CONTACT_RESOLUTION;

/**
 * Makes a worker a plain service at the request of its owner, if the coordinator has been silent for a day; throws
 * `not-the-coordinator` before that. A coordinator that comes back is told that the worker is gone.
 */
export async function takeOverWorker(
  principal: Admin | User,
  { service, version }: WorkerRecord,
  ifMatch: Version | undefined,
  workers: Workers,
): Promise<void> {
  const { catalog, audit } = workers;
  const { uid, keyId } = service.federation;
  const { name } = service.definition;
  if (ifMatch !== undefined && ifMatch !== version) throw oldVersion(name);
  const heard = await lastContact(uid, name, catalog);
  if (catalog.now() - heard < TAKE_OVER_AFTER) {
    const refused = federationGuard(service, 'update')?.message ?? '';
    const then = new Date(heard + TAKE_OVER_AFTER).toISOString();
    throw new FederationError(
      'not-the-coordinator',
      `${refused}. If its coordinator stays silent, a PUT after ${then} makes it a plain service`,
    );
  }
  await writeTombstone(keyId, { service: name, reason: 'taken-over', ending: 'detach' }, catalog);
  await endWorker({ name, ending: 'detach', keyId }, workers);
  audit?.({ what: 'taken-over', service: name, uid, by: principal.kind === 'admin' ? 'admin' : principal.uid });
}
