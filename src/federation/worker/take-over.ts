import type { Admin, User } from '../../identity/index.ts';
import type { Version } from '../../lib/version.ts';
import { FederationError } from '../../peers/index.ts';
import { oldVersion } from '../../services/index.ts';
import { HEARD_EVERY, heardAt } from './member-key.ts';
import { endWorker } from './release-worker.ts';
import { bury } from './tombstones.ts';
import { federationGuard, type WorkerRecord, type Workers } from './worker-role.ts';

/**
 * How long a coordinator has been silent before its worker can be had. Shorter: a manager that is down over night loses its
 * members. Longer: whose coordinator is gone for good waits for longer. What is remembered may be an hour behind.
 */
const SILENCE = 24 * 3_600_000 + HEARD_EVERY;

/**
 * Makes a worker a service of its own, as its owner wishes, if its coordinator has not been heard for a day; throws
 * `not-the-coordinator` before. A coordinator that comes back is told that it has gone.
 */
export async function takeOverWorker(
  principal: Admin | User,
  { service, version }: WorkerRecord,
  ifMatch: Version | undefined,
  workers: Workers,
): Promise<void> {
  const { catalog, audit } = workers;
  const { uid, keyId } = service.federation;
  const { name } = service.definition;
  if (ifMatch !== undefined && ifMatch !== version) throw oldVersion(name);
  const heard = await heardAt(uid, name, catalog);
  if (catalog.now() - heard < SILENCE) {
    const refused = federationGuard(service, 'update')?.message ?? '';
    const then = new Date(heard + SILENCE).toISOString();
    throw new FederationError(
      'not-the-coordinator',
      `${refused}. If its coordinator stays silent, a PUT after ${then} makes it a service of its own`,
    );
  }
  await bury(keyId, { service: name, reason: 'taken-over', ending: 'detach' }, catalog);
  await endWorker({ name, ending: 'detach', keyId }, workers);
  audit?.({ what: 'taken-over', service: name, uid, by: principal.kind === 'admin' ? 'admin' : principal.uid });
}
