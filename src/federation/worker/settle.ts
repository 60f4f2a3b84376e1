import { forEachSettled } from '../../lib/concurrency.ts';
import { keyIdOf } from '../../peers/index.ts';
import { ServicesError } from '../../services/index.ts';
import { forgetMember, keptKey } from './member-key.ts';
import { endWorker, restore } from './release-worker.ts';
import { forgetName, gone, openTombstones, sweepTombstones, tombstoneOf } from './tombstones.ts';
import { endWork, isBeingMade, takeOverWork, type Work } from './work.ts';
import { isWorkerOf, UNFINISHED, type Workers, WRITE_ATTEMPTS } from './worker-role.ts';

/**
 * Ends work that came to its end. The coordinator may have undone it meanwhile, finding nothing to undo: it has left its
 * mark before it looked, and here the mark is looked for after the worker is there, so that one of the two sees the other.
 */
export async function finishWork(work: Work, workers: Workers): Promise<void> {
  const undone = await endIfBuried(work, workers);
  if (!undone) await forgetName(work.uid, work.service, workers.catalog);
  await endWork(work, workers.catalog.journal);
  if (undone) throw gone(work.service);
}

/**
 * Settles work that came to no end: what was made and is whole stays, what was being adopted is what it was, and nothing
 * else is left.
 */
export async function settleWork(work: Work, workers: Workers): Promise<void> {
  if (!(await endIfBuried(work, workers))) await giveBack(work, workers);
  await endWork(work, workers.catalog.journal);
}

async function endIfBuried(work: Work, workers: Workers): Promise<boolean> {
  const { keyId, service: name } = work;
  const tombstone = await tombstoneOf(keyId, workers.catalog);
  if (tombstone) await endWorker({ name, ending: tombstone.ending ?? 'undo', keyId, work }, workers);
  return tombstone !== undefined;
}

/** What was kept by a key that has been replaced; the key itself is kept with its successor. */
async function forgetReplaced(keyId: string, catalog: Workers['catalog']): Promise<void> {
  const former = (await keptKey(keyId, catalog))?.former;
  if (former) await forgetMember(keyIdOf(former.key), catalog);
}

async function giveBack({ service, keyId, revision }: Work, { catalog }: Workers): Promise<void> {
  for (let attempt = 1; attempt <= WRITE_ATTEMPTS; attempt++) {
    const record = await catalog.services.get(service);
    if (!isWorkerOf(record, keyId)) return forgetMember(keyId, catalog);
    await forgetReplaced(keyId, catalog);
    const { adopted, digest, revision: has } = record.service.federation;
    // Another revision is the coordinator's next change, which comes only after this was done.
    if (!adopted || digest !== UNFINISHED || has !== revision) return;
    if (await restore(record, catalog)) return forgetMember(keyId, catalog);
  }
  throw new ServicesError('contended', `"${service}" is being changed by many at once: try again`);
}

/**
 * Finishes what a manager that died had begun with workers before the given time, and forgets what has been kept for long
 * enough. Gives how many were settled. One that cannot be settled now holds up no other. For what another manager may still
 * be doing see `recoverServices`.
 */
export async function recoverWorkers(begunBefore: number, workers: Workers): Promise<number> {
  const { catalog } = workers;
  let settled = 0;
  const settleWorks = async () => {
    settled += await forEachSettled(takeOverWork(begunBefore, catalog.journal), (work) => settleWork(work, workers));
  };
  const endBuried = async () => {
    settled += await forEachSettled(openTombstones(begunBefore, catalog), async ({ keyId, service: name, ending }) => {
      // Whoever makes it sees the tombstone.
      if (await isBeingMade(keyId, catalog)) return false;
      await endWorker({ name, ending, keyId }, workers);
      return true;
    });
  };
  await forEachSettled([settleWorks, endBuried, () => sweepTombstones(catalog)], (step) => step());
  return settled;
}
