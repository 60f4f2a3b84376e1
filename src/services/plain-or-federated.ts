import type { Admin, User } from '../identity/index.ts';
import type { Version } from '../lib/version.ts';
import { readDefinition } from '../model/service/index.ts';
import type { ServiceRecord } from '../ports/index.ts';
import { withoutClusterAccounts } from './admit.ts';
import { createService } from './create.ts';
import { findService } from './read.ts';
import { findRemovable, removeService } from './remove.ts';
import type { Services } from './services.ts';
import { updateService } from './update.ts';

/** The caller. A federation also needs a credential for other clusters. */
interface ServiceCaller {
  readonly principal: Admin | User;
}

export interface ChangedService {
  readonly record: ServiceRecord;
  /** Members that do not have the change yet, and why. */
  readonly pending: readonly { readonly member: string; readonly reason: string }[];
}

/** A worker that a removal has left on its cluster. */
export interface LeftBehind {
  readonly member: string;
  readonly reason: string;
}

/** Operations on services that have members on other clusters. `src/federation` implements them. */
export interface FederatedServices<Caller extends ServiceCaller = ServiceCaller> {
  create(caller: Caller, body: unknown): Promise<ChangedService>;
  change(caller: Caller, body: unknown, ifMatch: Version | undefined): Promise<ChangedService>;
  /**
   * Also ends the members; without `cascade` they stay as plain services. Returns the members that this manager may be unable
   * to end later, and why they still exist.
   */
  remove(caller: Caller, record: ServiceRecord, cascade: boolean): Promise<LeftBehind[]>;
  /** Makes a worker a plain service, if its coordinator has been silent for long enough; throws otherwise. */
  takeOverWorker(caller: Caller, record: ServiceRecord, ifMatch: Version | undefined): Promise<void>;
  /** Notifies the coordinator, then removes the worker. */
  removeWorker(caller: Caller, name: string, namespace: string | undefined): Promise<void>;
}

/** A definition with members is deployed as a federation; any other creates a plain service. */
export async function createPlainOrFederated<Caller extends ServiceCaller>(
  caller: Caller,
  sent: unknown,
  services: Services,
  federated: FederatedServices<Caller>,
): Promise<ChangedService> {
  const body = withoutClusterAccounts(caller.principal, sent);
  if (isMarkedAsWorker(body)) return createPlain(caller, withoutMembers(body), services);
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
const isMarkedAsWorker = (body: unknown) =>
  keysOf(body).some(
    ([key, annotations]) =>
      /^annotations$/i.test(key) &&
      keysOf(annotations).some(([name, value]) => name === WORKER_MARK && value === 'true'),
  );

const WORKER_MARK = 'oscar.grycap/federation-worker';

const withoutMembers = (body: unknown) =>
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
    return { record: await updateService(caller.principal, withoutMembers(body), ifMatch, services), pending: [] };
  }
  if (role === 'worker') {
    await federated.takeOverWorker(caller, record, ifMatch);
    return updatePlainOrFederated(caller, body, undefined, services, federated);
  }
  if (role === 'coordinator' || (federation?.members ?? []).length > 0) return federated.change(caller, body, ifMatch);
  return { record: await updateService(caller.principal, body, ifMatch, services), pending: [] };
}

/** A coordinator is removed with its members, a worker here alone, after its coordinator has been notified. */
export async function removePlainOrFederated<Caller extends ServiceCaller>(
  caller: Caller,
  name: string,
  { namespace, cascade }: { readonly namespace: string | undefined; readonly cascade: boolean },
  services: Services,
  federated: FederatedServices<Caller>,
): Promise<LeftBehind[]> {
  const { principal } = caller;
  const record = await findRemovable(principal, name, namespace, services);
  const role = record.service.federation?.role;
  if (role === 'coordinator') return federated.remove(caller, record, cascade);
  if (role === 'worker') await federated.removeWorker(caller, name, namespace);
  else await removeService(principal, name, namespace, services);
  return [];
}
