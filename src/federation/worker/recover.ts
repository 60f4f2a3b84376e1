import { openTombstones, sweepTombstones } from './kept/tombstones.ts';
import { isBeingMade, takeOverWork } from './kept/work.ts';
import { endWorker } from './release.ts';
import { settleWork } from './settle.ts';
import type { Workers } from './workers.ts';

/**
 * Finishes what a manager that died had begun with workers before the given time, and forgets what has been kept for long
 * enough. Gives how many were settled. For what another manager may still be doing see `recoverServices`.
 */
export async function recoverWorkers(begunBefore: number, workers: Workers): Promise<number> {
  const { catalog } = workers;
  let settled = 0;
  for await (const work of takeOverWork(begunBefore, catalog.journal)) {
    await settleWork(work, workers);
    settled++;
  }
  for await (const { keyId, service: name, ending } of openTombstones(begunBefore, catalog)) {
    // Whoever makes it sees the tombstone.
    if (await isBeingMade(keyId, catalog)) continue;
    await endWorker({ name, ending, keyId }, workers);
    settled++;
  }
  await sweepTombstones(catalog);
  return settled;
}
