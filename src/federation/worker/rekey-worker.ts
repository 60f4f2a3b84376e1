import type { Admin, User } from '../../identity/index.ts';
import { memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import { isRace } from '../../ports/index.ts';
import { oldVersion, ServicesError } from '../../services/index.ts';
import { isOwner } from '../ownership.ts';
import { nameTaken, parseOrderBody, parseWorker } from './create-worker.ts';
import { deleteMemberData, loadMemberKey, storeMemberKey } from './member-key.ts';
import { copyOriginal } from './original-service.ts';
import { completeIntent, rollBackIntent } from './recover-workers.ts';
import { rejectEnded, wasEnded, workerGone } from './tombstones.ts';
import { updateWorker } from './update-worker.ts';
import { beginWorkerIntent, type WorkerIntent, waitForWorkerIntent } from './worker-intent.ts';
import {
  isWorkerInFederation,
  isWorkerWithKey,
  type WorkerRecord,
  type Workers,
  WRITE_ATTEMPTS,
} from './worker-role.ts';

/**
 * How long a replaced key stays valid. A shorter value rejects requests that are in flight, which take seconds; a longer
 * value keeps a leaked key valid for longer.
 */
const FORMER_LIFETIME = 10 * 60_000;

/** The intent of a re-key names a revision that no worker has, so rolling it back never restores an adopted service. */
const ANY_REVISION = -1;

/**
 * Replaces the key of a worker at the request of its owner, and updates the worker to the revision of the order. Calling it
 * again with the same key is a no-op. Returns false if there is no worker of that federation; the coordinator then creates
 * it.
 */
export async function rekeyWorker(principal: Admin | User, order: WorkerOrder, workers: Workers): Promise<boolean> {
  const definition = parseOrderBody(order.body);
  parseWorker(definition, order.name);
  const keyId = memberKeyId(order.key);
  if (!(await installKey(principal, order, keyId, workers))) return false;
  await updateWorker(order.name, { ...order, definition }, keyId, workers);
  return true;
}

async function installKey(
  principal: Admin | User,
  order: WorkerOrder,
  keyId: string,
  workers: Workers,
): Promise<boolean> {
  const { catalog } = workers;
  const { uid, name, revision } = order;
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    await rejectEnded(keyId, catalog);
    const record = await catalog.services.get(name);
    if (!isWorkerInFederation(record, uid)) {
      if (await wasEnded(uid, name, catalog)) throw workerGone(name);
      return false;
    }
    if (!isOwner(principal, record.service)) throw nameTaken(name);
    // A later request has arrived first, so this key may be outdated too.
    if (revision < record.service.federation.revision) throw oldVersion(name);
    if (isWorkerWithKey(record, keyId)) return true;
    await rejectReplacedKey(record, order, keyId, catalog);
    const work = await beginWorkerIntent(keyId, { name, uid, revision: ANY_REVISION }, catalog);
    if (work === 'busy') await waitForWorkerIntent(keyId, catalog);
    else if (await replaceKey(record, order, work, workers)) return true;
  }
  throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
}

/**
 * A request that was delayed must not bring back a key that another has replaced: the coordinator no longer has it. A
 * coordinator that was restored from a backup uses an earlier key again, but with a later revision.
 */
async function rejectReplacedKey(
  { service: { federation } }: WorkerRecord,
  { name, revision }: WorkerOrder,
  keyId: string,
  catalog: Workers['catalog'],
): Promise<void> {
  if (revision > federation.revision) return;
  if ((await loadMemberKey(federation.keyId, catalog))?.replaced === keyId) throw oldVersion(name);
}

/** Everything that is stored by key id is copied first, so that one write of the record switches to the new key. */
async function replaceKey(
  { service, version }: WorkerRecord,
  { key }: WorkerOrder,
  work: WorkerIntent,
  workers: Workers,
): Promise<boolean> {
  const { catalog } = workers;
  const { federation } = service;
  try {
    // A release writes its tombstone before it looks for the intent, so a tombstone must be checked after the intent is
    // written.
    await rejectEnded(work.keyId, catalog);
    const former = (await loadMemberKey(federation.keyId, catalog))?.key;
    const until = catalog.now() + FORMER_LIFETIME;
    if (federation.adopted) await copyOriginal(federation.keyId, work.keyId, catalog);
    const replaced = federation.keyId;
    await storeMemberKey(work.keyId, { key, replaced, ...(former && { former: { key: former, until } }) }, catalog);
    await catalog.services.replace({ ...service, federation: { ...federation, keyId: work.keyId } }, version);
  } catch (error) {
    await rollBackIntent(work, workers);
    if (isRace(error)) return false;
    throw error;
  }
  await deleteMemberData(federation.keyId, catalog);
  await completeIntent(work, workers);
  return true;
}
