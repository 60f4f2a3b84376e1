import type { Admin, User } from '../../identity/index.ts';
import type { Probe, WorkerState } from '../../peers/index.ts';
import { isOwner } from '../ownership.ts';
import { rejectEnded } from './tombstones.ts';
import { isWorkerWithKey, type Workers } from './worker-role.ts';

/**
 * What there is under a name, for somebody who could make a service here. Names are unique in the cluster, so that they
 * would learn by trying that one is taken; of what is not theirs they learn nothing else.
 */
export async function probeWorker(
  principal: Admin | User,
  name: string,
  { catalog, instance }: Workers,
): Promise<Probe> {
  const record = await catalog.services.get(name);
  if (!record) return { instance, found: 'nothing' };
  const { federation } = record.service;
  const owner = isOwner(principal, record.service);
  if (federation && (owner || principal.kind === 'admin')) {
    const { uid, revision } = federation;
    return { instance, found: 'member', uid, revision };
  }
  return owner ? { instance, found: 'own', version: record.version } : { instance, found: 'taken' };
}

/** What the worker of this key is by now. Throws `federation-gone` when it was ended. */
export async function inspectWorker(
  name: string,
  keyId: string,
  { catalog, instance }: Workers,
): Promise<WorkerState | undefined> {
  const record = await catalog.services.get(name);
  if (isWorkerWithKey(record, keyId)) {
    const { revision, digest } = record.service.federation;
    return { instance, revision, digest };
  }
  await rejectEnded(keyId, catalog);
  return undefined;
}
