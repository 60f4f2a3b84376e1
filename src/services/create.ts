import { type Admin, chooseVo, namespaceFor, ownerNameLabel, type User } from '../identity/index.ts';
import {
  CLUSTER_ADMIN,
  type Definition,
  type DefinitionSecrets,
  ownedBy,
  type RemoteBucket,
  readDefinition,
  type Service,
} from '../model/service/index.ts';
import type { Reservation, ServiceRecord } from '../ports/index.ts';
import { admit } from './admit.ts';
import { serviceNameTaken } from './errors.ts';
import { beginIntent, endIntent, toLeftovers } from './intent.ts';
import { removeLeftovers } from './remove.ts';
import { saveSecrets, toSecretsOwner, vaultSecrets } from './service-secrets.ts';
import type { Services } from './services.ts';
import { provisionProviderBuckets, provisionStorage } from './storage.ts';

/**
 * Creates a service. All checks come first and change nothing. Then the name is reserved, secrets and buckets are created,
 * and the definition is stored last: it makes the service exist. If the manager stops in between, an intent remains and
 * `recoverServices` cleans up.
 */
export async function createService(
  principal: Admin | User,
  body: unknown,
  catalog: Services,
  role: Pick<Service, 'federation'> = {},
): Promise<ServiceRecord> {
  const { definition, secrets: given } = readDefinition(body);
  const planned = newService(principal, definition, catalog);
  const secrets = await admit(planned.definition, given, undefined, catalog, role);

  // The short name of a user's namespace may already belong to another user; the store resolves that (S18).
  const service = {
    ...planned,
    ...role,
    namespace: await catalog.services.claimNamespace(planned.owner, planned.namespace),
  };
  const { name } = service.definition;
  const reservation = await catalog.services.reserve(name, service.uid);
  if (reservation === 'taken') {
    throw serviceNameTaken(name);
  }
  const leftovers = toLeftovers(service);
  const intent = await beginIntent('create', leftovers, catalog.journal, catalog.now());
  let remote: readonly RemoteBucket[] = [];
  try {
    if (catalog.providers) remote = await provisionProviderBuckets(service, catalog.providers);
    const record = await createRecord(
      reservation,
      service,
      await vaultSecrets(service.uid, secrets, principal, catalog),
      catalog,
    );
    await endIntent(intent, catalog.journal);
    return record;
  } catch (error) {
    // A store that did not answer may have created the service nevertheless. If this read fails too, `recoverServices`
    // settles it.
    const made = await catalog.services.get(name);
    if (made?.service.uid !== service.uid) {
      await catalog.services.release(reservation);
      await removeLeftovers({ ...leftovers, remote }, catalog);
    }
    await endIntent(intent, catalog.journal);
    if (made?.service.uid === service.uid) return made;
    throw error;
  }
}

async function createRecord(
  reservation: Reservation,
  service: Service,
  secrets: DefinitionSecrets,
  catalog: Services,
): Promise<ServiceRecord> {
  await saveSecrets(toSecretsOwner(service), secrets, catalog);
  if (catalog.objects) await provisionStorage(service, catalog.objects);
  return catalog.services.create(reservation, service);
}

/** The service that a create would store. */
export function newService(principal: Admin | User, definition: Definition, catalog: Services): Service {
  const identity = { uid: catalog.newUid(), token: catalog.newToken() };
  if (principal.kind === 'admin') {
    return {
      ...identity,
      definition: ownedBy(definition, CLUSTER_ADMIN),
      owner: CLUSTER_ADMIN,
      ownerName: catalog.managerName,
      namespace: catalog.servicesNamespace,
    };
  }
  const { vo } = chooseVo({
    requested: definition.vo,
    userGroups: principal.groups,
    allowedGroups: catalog.allowedGroups,
  });
  return {
    ...identity,
    definition: ownedBy({ ...definition, vo }, principal.uid),
    owner: principal.uid,
    ownerName: ownerNameLabel(principal.name),
    namespace: namespaceFor(principal.uid, catalog.servicesNamespace),
  };
}
