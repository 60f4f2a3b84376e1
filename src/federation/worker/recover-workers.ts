import { forEachSettled } from '../../lib/concurrency.ts';
import { memberKeyId } from '../../peers/index.ts';
import { ServicesError } from '../../services/index.ts';
import { deleteMemberData, loadMemberKey } from './member-key.ts';
import { endWorker, restoreOriginal } from './release-worker.ts';
import { expireTombstones, forgetEndedWorker, openTombstones, readTombstone, workerGone } from './tombstones.ts';
import { claimWorkerIntents, endWorkerIntent, hasWorkerIntent, type WorkerIntent } from './worker-intent.ts';
import { isWorkerWithKey, UNFINISHED, type Workers, WRITE_ATTEMPTS } from './worker-role.ts';

/**
 * Ends the intent of a request that succeeded. The coordinator may have released the worker meanwhile and found nothing to
 * release. It wrote its tombstone before it looked, and here the tombstone is checked after the worker exists, so one of the
 * two sees the other.
 */
export async function completeIntent(work: WorkerIntent, workers: Workers): Promise<void> {
  const undone = await endIfTombstoned(work, workers);
  if (!undone) await forgetEndedWorker(work.uid, work.service, workers.catalog);
  await endWorkerIntent(work, workers.catalog.journal);
  if (undone) throw workerGone(work.service);
}

/**
 * Rolls back a request that failed: a worker that is complete stays, a service that was being adopted is restored, and
 * nothing else is left.
 */
export async function rollBackIntent(work: WorkerIntent, workers: Workers): Promise<void> {
  if (!(await endIfTombstoned(work, workers))) await undoIntent(work, workers);
  await endWorkerIntent(work, workers.catalog.journal);
}

async function endIfTombstoned(work: WorkerIntent, workers: Workers): Promise<boolean> {
  const { keyId, service: name } = work;
  const tombstone = await readTombstone(keyId, workers.catalog);
  if (tombstone) await endWorker({ name, ending: tombstone.ending ?? 'undo', keyId, work }, workers);
  return tombstone !== undefined;
}

/** Deletes what is stored under the id of a replaced key; the key itself is stored with its successor. */
async function deleteReplacedKeyData(keyId: string, catalog: Workers['catalog']): Promise<void> {
  const former = (await loadMemberKey(keyId, catalog))?.former;
  if (former) await deleteMemberData(memberKeyId(former.key), catalog);
}

async function undoIntent({ service, keyId, revision }: WorkerIntent, { catalog }: Workers): Promise<void> {
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    const record = await catalog.services.get(service);
    if (!isWorkerWithKey(record, keyId)) return deleteMemberData(keyId, catalog);
    await deleteReplacedKeyData(keyId, catalog);
    const { adopted, digest, revision: has } = record.service.federation;
    // Another revision means that the coordinator has sent its next change, which it does only after this request succeeded.
    if (!adopted || digest !== UNFINISHED || has !== revision) return;
    if (await restoreOriginal(record, catalog)) return deleteMemberData(keyId, catalog);
  }
  throw new ServicesError('contended', `"${service}" is being changed by other requests: try again`);
}

/**
 * Completes or rolls back what a manager that stopped had begun with workers before the given time, and expires tombstones.
 * Returns how many intents and tombstones were settled. One that fails does not block the others. `recoverServices` explains
 * why only old intents are claimed.
 */
export async function recoverWorkers(begunBefore: number, workers: Workers): Promise<number> {
  const { catalog } = workers;
  let settled = 0;
  const settleWorks = async () => {
    settled += await forEachSettled(claimWorkerIntents(begunBefore, catalog.journal), (work) =>
      rollBackIntent(work, workers),
    );
  };
  const endBuried = async () => {
    settled += await forEachSettled(openTombstones(begunBefore, catalog), async ({ keyId, service: name, ending }) => {
      // The request that is creating the worker will find the tombstone.
      if (await hasWorkerIntent(keyId, catalog)) return false;
      await endWorker({ name, ending, keyId }, workers);
      return true;
    });
  };
  await forEachSettled([settleWorks, endBuried, () => expireTombstones(catalog)], (step) => step());
  return settled;
}
