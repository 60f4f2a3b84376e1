import type { Reservation, ServiceRecord } from '../cluster/index.ts';
import { type Admin, chooseVo, namespaceFor, ownerNameLabel, type User } from '../identity/index.ts';
import {
  CLUSTER_ADMIN,
  type Definition,
  type DefinitionSecrets,
  ownedBy,
  readDefinition,
  type Service,
} from '../service/index.ts';
import { admit } from './admit.ts';
import type { Catalog } from './catalog.ts';
import { CatalogError } from './errors.ts';
import { beginIntent, endIntent } from './intent.ts';
import { forgetSecrets, ownerOfSecrets, saveSecrets } from './service-secrets.ts';

/**
 * Makes a service. Refusals come first and change nothing; then the name is taken, the secrets are stored, and the
 * definition is what makes it exist. Whoever dies in between leaves an intent, and `recover` cleans up.
 */
export async function createService(principal: Admin | User, body: unknown, catalog: Catalog): Promise<ServiceRecord> {
  const { definition, secrets: given } = readDefinition(body);
  const service = newService(principal, definition, catalog);
  const secrets = await admit(service.definition, given, undefined, catalog);

  const { name } = service.definition;
  const reservation = await catalog.services.reserve(name, service.uid);
  if (reservation === 'taken') {
    throw new CatalogError('name-taken', `the name "${name}" is taken on this cluster: choose another`);
  }
  const owner = ownerOfSecrets(service);
  const intent = await beginIntent('create', owner, catalog.journal, catalog.now());
  const record = await make(reservation, service, secrets, catalog).catch(async (error) => {
    await catalog.services.release(reservation);
    await forgetSecrets(owner, catalog);
    await endIntent(intent, catalog.journal);
    throw error;
  });
  await endIntent(intent, catalog.journal);
  return record;
}

async function make(
  reservation: Reservation,
  service: Service,
  secrets: DefinitionSecrets,
  catalog: Catalog,
): Promise<ServiceRecord> {
  await saveSecrets(ownerOfSecrets(service), secrets, catalog);
  return catalog.services.create(reservation, service);
}

function newService(principal: Admin | User, definition: Definition, catalog: Catalog): Service {
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
    asked: definition.vo,
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
