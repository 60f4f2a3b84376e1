import type { Admin, User } from '../../identity/index.ts';
import type { Probe, WorkerState } from '../../peers/index.ts';
import { isOwner } from '../ownership.ts';
import { rejectEnded } from './tombstones.ts';
import { isWorkerWithKey, type Workers } from './worker-role.ts';

/**
 * Reports what exists under a name, to a caller who may create services here. Names are unique in the cluster, so the caller
 * could find out by a create that a name is taken; about services of others the caller learns nothing else.
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

/** The current state of the worker with this key. Throws `federation-gone` if the worker was ended. */
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
