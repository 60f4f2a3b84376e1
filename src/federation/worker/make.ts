import { CatalogError, createService } from '../../catalog/index.ts';
import type { Admin, User } from '../../identity/index.ts';
import { FederationError } from '../errors.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { keyIdOf } from '../peer/signature.ts';
import { keepMemberKey } from './kept/member-key.ts';
import { refuseEnded } from './kept/tombstones.ts';
import { beginWork, type Work, workIsOver } from './kept/work.ts';
import { documentOf, readWorker } from './read-worker.ts';
import { finishWork, settleWork } from './settle.ts';
import { isWorkerOf, roleOf } from './worker-role.ts';
import type { Workers } from './workers.ts';

/**
 * Makes a worker; whoever asks becomes its owner. It is made like any service, but has nothing in the store of this cluster
 * (design §7). With the same key again nothing changes.
 */
export async function makeWorker(principal: Admin | User, order: WorkerOrder, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const keyId = keyIdOf(order.key);
  readWorker(documentOf(order.body), order.name);
  for (;;) {
    await refuseEnded(keyId, catalog);
    const there = await catalog.services.get(order.name);
    if (isWorkerOf(there, keyId)) return;
    if (there) throw taken(order.name);
    const work = await beginWork(keyId, order, catalog);
    if (work !== 'busy') return make(principal, order, work, workers);
    await workIsOver(keyId, catalog);
  }
}

async function make(principal: Admin | User, order: WorkerOrder, work: Work, workers: Workers): Promise<void> {
  const { catalog } = workers;
  const federation = roleOf(order, { adopted: false, digest: order.digest });
  try {
    // Whoever undoes this looks for the work after the mark is there.
    await refuseEnded(federation.keyId, catalog);
    await keepMemberKey(federation.keyId, order, catalog);
    await createService(principal, documentOf(order.body), catalog, { federation });
  } catch (error) {
    await settleWork(work, workers);
    throw error instanceof CatalogError && error.code === 'name-taken' ? taken(order.name) : error;
  }
  await finishWork(work, workers);
}

export const taken = (name: string) =>
  new FederationError('member-taken', `the name "${name}" belongs to something else on this cluster: choose another`);
