import type { Admin, User } from '../../identity/index.ts';
import type { Probe, WorkerState } from '../../peers/index.ts';
import { isOwner } from '../ownership.ts';
import { registerKey, rejectEnded } from './tombstones.ts';
import { isWorkerWithKey, type Workers } from './worker-role.ts';

/**
 * Reports what exists under a name, to a caller who may create services here, and registers the key with which the caller
 * may create a worker next. A service of another user is shown as `nothing`: the probe must not tell which names exist, and
 * the create is rejected.
 */
export async function probeWorker(
  principal: Admin | User,
  name: string,
  { catalog, instance }: Workers,
  keyId?: string,
): Promise<Probe> {
  if (keyId !== undefined) await registerKey(keyId, name, catalog);
  const record = await catalog.services.get(name);
  if (!record) return { instance, found: 'nothing' };
  const { federation } = record.service;
  const owner = isOwner(principal, record.service);
  if (federation && (owner || principal.kind === 'admin')) {
    const { uid, revision } = federation;
    return { instance, found: 'member', uid, revision };
  }
  if (owner) return { instance, found: 'own', version: record.version };
  return principal.kind === 'admin' ? { instance, found: 'taken' } : { instance, found: 'nothing' };
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
