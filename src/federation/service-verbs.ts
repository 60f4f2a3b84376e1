import { createService, findService, updateService } from '../catalog/index.ts';
import type { ServiceRecord, Version } from '../cluster/index.ts';
import type { Admin, User } from '../identity/index.ts';
import { readDefinition } from '../service/index.ts';
import { type Changed, changeService } from './change.ts';
import type { Caller, Coordination } from './coordinator/coordination.ts';
import { deploy } from './deploy.ts';
import { removeFederation } from './remove.ts';
import { federationGuard } from './worker/guard.ts';
import { removeHere } from './worker/own-delete.ts';
import type { Workers } from './worker/workers.ts';

/** What a cluster does with services that may be part of a federation. */
export interface Federations {
  readonly coordination: Coordination;
  readonly workers: Workers;
}

/** Makes a service, and its members if it has any. */
export async function createFederated(
  caller: Caller,
  body: unknown,
  { coordination, workers }: Federations,
): Promise<Changed> {
  if (namesFederation(body) && hasMembers(body)) return deploy(caller, body, coordination);
  return { record: await createService(caller.principal, body, workers.catalog), pending: [] };
}

/** Replaces a definition, at all members if there are any. Of a worker it is the coordinator's to do (F45). */
export async function updateFederated(
  caller: Caller,
  body: unknown,
  ifMatch: Version | undefined,
  { coordination, workers }: Federations,
): Promise<Changed> {
  const { name, federation } = readDefinition(body).definition;
  const { service } = await findService(caller.principal, 'update', name, workers.catalog);
  const refused = federationGuard(service, 'update');
  if (refused) throw refused;
  if (service.federation || (federation?.members ?? []).length > 0) {
    return changeService(caller, body, ifMatch, coordination);
  }
  return { record: await updateService(caller.principal, body, ifMatch, workers.catalog), pending: [] };
}

/** Removes a service: with its members if it coordinates them, here alone if it is one. */
export async function removeFederated(
  principal: Admin | User,
  name: string,
  { namespace, cascade }: { readonly namespace: string | undefined; readonly cascade: boolean },
  { coordination, workers }: Federations,
): Promise<void> {
  const record = await findService(principal, 'delete', name, workers.catalog);
  const isHere = principal.kind !== 'admin' || !namespace || namespace === record.service.namespace;
  if (isHere && coordinates(record)) await removeFederation(record, { cascade }, coordination);
  else await removeHere(principal, name, namespace, workers);
}

const coordinates = ({ service }: ServiceRecord) => service.federation?.role === 'coordinator';

/** Most definitions do not, and need not be read twice. */
function namesFederation(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Object.keys(body).some((key) => /^federation$/i.test(key));
}

const hasMembers = (body: unknown) => (readDefinition(body).definition.federation?.members ?? []).length > 0;
