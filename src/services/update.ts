import { type Admin, chooseVo, type User } from '../identity/index.ts';
import type { Version } from '../lib/version.ts';
import { type Definition, ownedBy, type RemoteBucket, readDefinition, type Service } from '../model/service/index.ts';
import { isRace, type ServiceRecord } from '../ports/index.ts';
import { admit, withoutClusterAccounts } from './admit.ts';
import { isMarkedAsWorker, withoutMemberList } from './create.ts';
import { ServicesError } from './errors.ts';
import { findService } from './read.ts';
import { releaseStorage } from './remove.ts';
import {
  loadSecretsForChange,
  releaseUnusedGrants,
  replaceSecrets,
  sameGrant,
  toSecretsOwner,
  vaultSecrets,
} from './service-secrets.ts';
import type { ChangedService, FederatedServices, ServiceCaller, Services } from './services.ts';
import { provisionProviderBuckets, provisionStorage, toStorageClaim, updateBucketAccess } from './storage.ts';

/**
 * A service that is federated, or becomes so, is changed at all its members; any other here alone. A worker is changed by its
 * coordinator (F45), unless the coordinator has been silent for so long that the owner may take the worker over.
 */
export async function updatePlainOrFederated<Caller extends ServiceCaller>(
  caller: Caller,
  sent: unknown,
  ifMatch: Version | undefined,
  services: Services,
  federated: FederatedServices<Caller>,
): Promise<ChangedService> {
  const body = withoutClusterAccounts(caller.principal, sent);
  const { name, federation } = readDefinition(body).definition;
  const record = await findService(caller.principal, 'update', name, services);
  const role = record.service.federation?.role;
  if (role === undefined && isMarkedAsWorker(body)) {
    return { record: await updateService(caller.principal, withoutMemberList(body), ifMatch, services), pending: [] };
  }
  if (role === 'worker') {
    await federated.takeOverWorker(caller, record, ifMatch);
    return updatePlainOrFederated(caller, body, undefined, services, federated);
  }
  if (role === 'coordinator' || (federation?.members ?? []).length > 0) return federated.change(caller, body, ifMatch);
  return { record: await updateService(caller.principal, body, ifMatch, services), pending: [] };
}

/** Enough for any burst of writers to one service. More failures than this mean a fault, not contention. */
const ATTEMPTS = 8;

/**
 * Replaces the definition of a service. Owner, namespace and token stay, even if the administrator writes (R16), and so do
 * the VO (R30) and secrets that are left blank (R3). The definition is replaced first, by compare-and-swap: a caller that
 * loses the race, or sends an old version, changes nothing.
 */
export async function updateService(
  principal: Admin | User,
  body: unknown,
  ifMatch: Version | undefined,
  catalog: Services,
): Promise<ServiceRecord> {
  const given = readDefinition(body);
  const { name } = given.definition;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const current = await findService(principal, 'update', name, catalog);
    if (ifMatch !== undefined && ifMatch !== current.version) throw oldVersion(name);
    // The service has just become a worker. A caller that tries again gets the error for workers.
    if (current.service.federation?.role === 'worker') break;
    const replaced = await replaceDefinition(principal, given, current, {}, catalog);
    if (replaced) return replaced;
  }
  throw new ServicesError('contended', `"${name}" is being changed by other requests: try again`);
}

export const oldVersion = (name: string) =>
  new ServicesError('old-version', `"${name}" has changed since you read it: read it again`);

/**
 * Replaces the definition of a service in the version that was read, with one attempt. Returns undefined if another writer
 * was faster.
 */
export async function replaceDefinition(
  principal: Admin | User,
  { definition, secrets: given }: ReturnType<typeof readDefinition>,
  current: ServiceRecord,
  role: { readonly federation?: Service['federation'] | undefined },
  catalog: Services,
): Promise<ServiceRecord | undefined> {
  const service = withRole(toChangedService(principal, current.service, definition, catalog), role);
  const owner = toSecretsOwner(service);
  const stored = await loadSecretsForChange(service, catalog);
  const settle = async (secrets: typeof stored) => {
    const before = { definition: current.service.definition, secrets };
    return vaultSecrets(
      service.uid,
      await admit(service.definition, given, before, catalog, service),
      principal,
      catalog,
    );
  };
  const secrets = await settle(stored);
  let remote: readonly RemoteBucket[] = [];
  try {
    // New buckets must exist before the definition names them. If one cannot be created, nothing has changed.
    if (catalog.providers) remote = await provisionProviderBuckets(service, catalog.providers, current.service);
    if (catalog.objects) await provisionStorage(service, catalog.objects);
    const replaced = await catalog.services.replace(service, current.version);
    await replaceSecrets(owner, { stored, secrets, settle }, replaced, catalog);
    if (catalog.objects) await updateBucketAccess(service, catalog.objects);
    await releaseStorage(toStorageClaim(current.service), service, catalog);
    if (!sameGrant(stored, secrets)) await releaseUnusedGrants(owner, catalog);
    return replaced;
  } catch (error) {
    const claim = { ...toStorageClaim(service), remote };
    await releaseStorage(claim, (await catalog.services.get(definition.name))?.service, catalog);
    if (!sameGrant(stored, secrets)) await releaseUnusedGrants(owner, catalog);
    if (!isRace(error)) throw error;
    return undefined;
  }
}

/** The service with the given role, or with none; without the key `federation`, the role is kept. */
function withRole(service: Service, role: { readonly federation?: Service['federation'] | undefined }): Service {
  if (!('federation' in role)) return service;
  const { federation: _, ...alone } = service;
  return role.federation ? { ...alone, federation: role.federation } : alone;
}

/** The service that an update would store. */
export function toChangedService(
  principal: Admin | User,
  before: Service,
  definition: Definition,
  catalog: Services,
): Service {
  const previous = before.definition.vo;
  const { vo } =
    principal.kind === 'admin'
      ? { vo: definition.vo || previous }
      : chooseVo({
          requested: definition.vo,
          userGroups: principal.groups,
          allowedGroups: catalog.allowedGroups,
          previous,
        });
  const kept = withStoredSecrets(definition, before.definition);
  return { ...before, definition: ownedBy({ ...kept, vo }, before.owner, before.definition) };
}

/** An update without `environment.secrets` keeps all secrets. An update that names some removes those that it leaves out. */
function withStoredSecrets(definition: Definition, before: Definition): Definition {
  const { environment } = definition;
  if (Object.keys(environment.secrets).length > 0) return definition;
  return { ...definition, environment: { ...environment, secrets: before.environment.secrets } };
}
