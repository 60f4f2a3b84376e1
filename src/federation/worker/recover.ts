import { eachInTurn } from '../../base/each-in-turn.ts';
import { openTombstones, sweepTombstones } from './kept/tombstones.ts';
import { isBeingMade, takeOverWork } from './kept/work.ts';
import { endWorker } from './release.ts';
import { settleWork } from './settle.ts';
import type { Workers } from './workers.ts';

/**
 * Finishes what a manager that died had begun with workers before the given time, and forgets what has been kept for long
 * enough. Gives how many were settled. One that cannot be settled now holds up no other. For what another manager may still
 * be doing see `recoverServices`.
 */
export async function recoverWorkers(begunBefore: number, workers: Workers): Promise<number> {
  const { catalog } = workers;
  let settled = 0;
  const settleWorks = async () => {
    settled += await eachInTurn(takeOverWork(begunBefore, catalog.journal), (work) => settleWork(work, workers));
  };
  const endBuried = async () => {
    settled += await eachInTurn(openTombstones(begunBefore, catalog), async ({ keyId, service: name, ending }) => {
      // Whoever makes it sees the tombstone.
      if (await isBeingMade(keyId, catalog)) return false;
      await endWorker({ name, ending, keyId }, workers);
      return true;
    });
  };
  await eachInTurn([settleWorks, endBuried, () => sweepTombstones(catalog)], (step) => step());
  return settled;
}
