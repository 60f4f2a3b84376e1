import type { WorkerState } from '../peer/peer.ts';
import { refuseEnded } from './kept/tombstones.ts';
import { isWorkerOf } from './worker-role.ts';
import type { Workers } from './workers.ts';

/** What the worker of this key is by now. Throws `federation-gone` when it was ended. */
export async function inspectWorker(
  name: string,
  keyId: string,
  { catalog, instance }: Workers,
): Promise<WorkerState | undefined> {
  const record = await catalog.services.get(name);
  if (isWorkerOf(record, keyId)) {
    const { revision, digest } = record.service.federation;
    return { instance, revision, digest };
  }
  await refuseEnded(keyId, catalog);
  return undefined;
}
