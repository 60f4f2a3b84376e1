import type { Version } from '../lib/version.ts';
import { readDefinition } from '../model/service/index.ts';
import type { ServiceRecord } from '../ports/index.ts';
import { withoutClusterAccounts } from './admit.ts';
import { createService } from './create.ts';
import type { FederationPlans } from './dry-run.ts';
import { findService } from './read.ts';
import { findRemovable, removeService } from './remove.ts';
import type { ServiceCaller, Services } from './services.ts';
import { updateService } from './update.ts';

export interface ChangedService {
  readonly record: ServiceRecord;
  /** Members that do not have the change yet, and why. */
  readonly pending: readonly { readonly member: string; readonly reason: string }[];
}

/** Operations on services that have members on other clusters. `src/federation` implements them. */
export interface FederatedServices<Caller extends ServiceCaller = ServiceCaller> extends FederationPlans<Caller> {
  create(caller: Caller, body: unknown): Promise<ChangedService>;
  change(caller: Caller, body: unknown, ifMatch: Version | undefined): Promise<ChangedService>;
  /** Also ends the members; without `cascade` they stay as plain services. */
  remove(caller: Caller, record: ServiceRecord, cascade: boolean): Promise<void>;
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
  if (namesFederation(body) && hasMembers(body)) return federated.create(caller, body);
  return { record: await createService(caller.principal, body, services), pending: [] };
}

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
): Promise<void> {
  const { principal } = caller;
  const record = await findRemovable(principal, name, namespace, services);
  const role = record.service.federation?.role;
  if (role === 'coordinator') await federated.remove(caller, record, cascade);
  else if (role === 'worker') await federated.removeWorker(caller, name, namespace);
  else await removeService(principal, name, namespace, services);
}
