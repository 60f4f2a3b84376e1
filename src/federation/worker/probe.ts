import type { Admin, User } from '../../identity/index.ts';
import { CLUSTER_ADMIN, type Service } from '../../service/index.ts';
import type { Probe } from '../peer/peer.ts';
import type { Workers } from './workers.ts';

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

/** The administrator owns what the administrator made: nobody else's service is lent by them. */
export function isOwner(principal: Admin | User, { owner }: Service): boolean {
  return owner === (principal.kind === 'admin' ? CLUSTER_ADMIN : principal.uid);
}
