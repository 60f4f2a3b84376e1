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
import { admit, withoutClusterAccounts } from './admit.ts';
import { serviceNameTaken } from './errors.ts';
import { beginIntent, endIntent, toLeftovers } from './intent.ts';
import { removeLeftovers } from './remove.ts';
import { saveSecrets, toSecretsOwner, vaultSecrets } from './service-secrets.ts';
import type { ChangedService, FederatedServices, ServiceCaller, Services } from './services.ts';
import { provisionProviderBuckets, provisionStorage } from './storage.ts';

/** A definition with members is deployed as a federation; any other creates a plain service. */
export async function createPlainOrFederated<Caller extends ServiceCaller>(
  caller: Caller,
  sent: unknown,
  services: Services,
  federated: FederatedServices<Caller>,
): Promise<ChangedService> {
  const body = withoutClusterAccounts(caller.principal, sent);
  if (isMarkedAsWorker(body)) return createPlain(caller, withoutMemberList(body), services);
  if (namesFederation(body) && hasMembers(body)) return federated.create(caller, body);
  return createPlain(caller, body, services);
}

const createPlain = async ({ principal }: ServiceCaller, body: unknown, services: Services) => ({
  record: await createService(principal, body, services),
  pending: [],
});

/**
 * Whether a coordinator written in Go sent this definition: it creates its workers as their owner, and marks them with an
 * annotation. In a mesh each worker gets the list of the others. Such a definition is not expanded to them again: it becomes a
 * plain service, which takes the jobs of its coordinator. The annotation gives no rights, so that anybody may send it (F43).
 */
export const isMarkedAsWorker = (body: unknown) =>
  keysOf(body).some(
    ([key, annotations]) =>
      /^annotations$/i.test(key) &&
      keysOf(annotations).some(([name, value]) => name === WORKER_MARK && value === 'true'),
  );

const WORKER_MARK = 'oscar.grycap/federation-worker';

/** The definition of a worker whose federation this manager does not know. */
export const withoutMemberList = (body: unknown) =>
  Object.fromEntries(
    keysOf(body).map(([key, value]) => [
      key,
      /^federation$/i.test(key)
        ? Object.fromEntries(keysOf(value).filter(([name]) => !/^members$/i.test(name)))
        : value,
    ]),
  );

const keysOf = (value: unknown) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.entries(value) : [];

/** Most definitions have no such key, and are not parsed twice. */
const namesFederation = (body: unknown) =>
  typeof body === 'object' && body !== null && Object.keys(body).some((key) => /^federation$/i.test(key));

const hasMembers = (body: unknown) => (readDefinition(body).definition.federation?.members ?? []).length > 0;

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
