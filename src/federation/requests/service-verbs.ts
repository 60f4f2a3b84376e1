import type { Version } from '../../lib/version.ts';
import { readDefinition } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { createService, findService, oldVersion, updateService } from '../../services/index.ts';
import { type Changed, changeService } from '../coordinator/change.ts';
import type { Caller, Coordination } from '../coordinator/coordination.ts';
import { deploy } from '../coordinator/deploy.ts';
import { removeFederation } from '../coordinator/removal.ts';
import { withoutAccounts } from '../coordinator/without-accounts.ts';
import { removeHere } from '../worker/own-delete.ts';
import { takeLeave } from '../worker/pass-on.ts';
import { takeOver } from '../worker/take-over.ts';
import { isWorker, type Workers } from '../worker/worker-role.ts';

/** What a cluster does with services that may be part of a federation. */
export interface Federations {
  readonly coordination: Coordination;
  readonly workers: Workers;
}

/** Makes a service, and its members if it has any. */
export async function createFederated(
  caller: Caller,
  given: unknown,
  { coordination, workers }: Federations,
): Promise<Changed> {
  const body = withoutAccounts(caller.principal, given);
  if (namesFederation(body) && hasMembers(body)) return deploy(caller, body, coordination);
  return { record: await createService(caller.principal, body, workers.catalog), pending: [] };
}

/**
 * Replaces a definition, at all members if there are any. Of a worker it is the coordinator's to do (F45), unless that has
 * been silent for so long that the worker can be had.
 */
export async function updateFederated(
  caller: Caller,
  given: unknown,
  ifMatch: Version | undefined,
  { coordination, workers }: Federations,
): Promise<Changed> {
  const body = withoutAccounts(caller.principal, given);
  const { name, federation } = readDefinition(body).definition;
  const record = await findService(caller.principal, 'update', name, workers.catalog);
  if (isWorker(record)) {
    if (ifMatch !== undefined && ifMatch !== record.version) throw oldVersion(name);
    await takeOver(caller.principal, record, workers);
    return updateFederated(caller, body, undefined, { coordination, workers });
  }
  const { service } = record;
  if (service.federation || (federation?.members ?? []).length > 0) {
    return changeService(caller, body, ifMatch, coordination);
  }
  return { record: await updateService(caller.principal, body, ifMatch, workers.catalog), pending: [] };
}

/** Removes a service: with its members if it coordinates them, here alone if it is one. */
export async function removeFederated(
  caller: Caller,
  name: string,
  { namespace, cascade }: { readonly namespace: string | undefined; readonly cascade: boolean },
  { coordination, workers }: Federations,
): Promise<void> {
  const { principal } = caller;
  const record = await findService(principal, 'delete', name, workers.catalog);
  const isHere = principal.kind !== 'admin' || !namespace || namespace === record.service.namespace;
  if (isHere && coordinates(record)) await removeFederation(record, { cascade, caller }, coordination);
  else await removeHere(principal, name, namespace, workers, (worker) => takeLeave(worker, { coordination, workers }));
}

const coordinates = ({ service }: ServiceRecord) => service.federation?.role === 'coordinator';

/** Most definitions do not, and need not be read twice. */
function namesFederation(body: unknown): boolean {
  return typeof body === 'object' && body !== null && Object.keys(body).some((key) => /^federation$/i.test(key));
}

const hasMembers = (body: unknown) => (readDefinition(body).definition.federation?.members ?? []).length > 0;
