import { isDeepStrictEqual } from 'node:util';
import type { Version } from '../lib/version.ts';
import { type Definition, readDefinition } from '../model/service/index.ts';
import { admit, withoutClusterAccounts } from './admit.ts';
import { newService } from './create.ts';
import { serviceNameTaken } from './errors.ts';
import { findService } from './read.ts';
import { loadSecrets, toSecretsOwner } from './service-secrets.ts';
import type { FederationPlans, PlannedMember, ServiceCaller, Services } from './services.ts';
import { type PlannedBucket, reviewStorage } from './storage.ts';
import { oldVersion, toChangedService } from './update.ts';

/** What a create or an update would do. A request that would be rejected has no plan: its error is thrown. */
export interface ServicePlan {
  readonly name: string;
  readonly action: 'create' | 'update';
  /** The keys of the definition that would change; secrets have no values there and are left out. */
  readonly changes: readonly string[];
  /** Buckets in the object store of this cluster. */
  readonly buckets: readonly PlannedBucket[];
  readonly members: readonly PlannedMember[];
}

/** Decides about federations without one of their own. */
const COORDINATOR = { federation: { role: 'coordinator', uid: '', revision: 1, committed: false } } as const;

/** Checks a create as far as that is possible without changing anything, here and at the members. */
export async function planCreate<Caller extends ServiceCaller>(
  caller: Caller,
  sent: unknown,
  services: Services,
  federations: FederationPlans<Caller>,
): Promise<ServicePlan> {
  const body = withoutClusterAccounts(caller.principal, sent);
  const { definition, secrets } = readDefinition(body);
  const { name } = definition;
  const isFederated = hasMembers(definition);
  const service = newService(caller.principal, definition, services);
  await admit(service.definition, secrets, undefined, services, isFederated ? COORDINATOR : {});
  if (await services.services.get(name)) throw serviceNameTaken(name);
  const buckets = services.objects ? await reviewStorage(service, services.objects) : [];
  const members = isFederated ? await federations.planCreate(caller, body) : [];
  return { name, action: 'create', changes: [], buckets, members };
}

/** The same for an update. */
export async function planUpdate<Caller extends ServiceCaller>(
  caller: Caller,
  sent: unknown,
  ifMatch: Version | undefined,
  services: Services,
  federations: FederationPlans<Caller>,
): Promise<ServicePlan> {
  const body = withoutClusterAccounts(caller.principal, sent);
  const parsed = readDefinition(body);
  const { name } = parsed.definition;
  const record = await findService(caller.principal, 'update', name, services);
  if (ifMatch !== undefined && ifMatch !== record.version) throw oldVersion(name);
  const before = record.service;
  const isFederated = before.federation !== undefined || hasMembers(parsed.definition);
  const { given, members } = isFederated
    ? await federations.planChange(caller, body, record)
    : { given: parsed, members: [] };
  const service = toChangedService(caller.principal, before, given.definition, services);
  const stored = { definition: before.definition, secrets: await loadSecrets(toSecretsOwner(before), services) };
  await admit(service.definition, given.secrets, stored, services, isFederated ? COORDINATOR : service);
  const buckets = services.objects ? await reviewStorage(service, services.objects) : [];
  return { name, action: 'update', changes: changedKeys(before.definition, service.definition), buckets, members };
}

const hasMembers = ({ federation }: Definition) => (federation?.members ?? []).length > 0;

function changedKeys(before: Definition, after: Definition): string[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])] as (keyof Definition)[];
  return keys.filter((key) => !isDeepStrictEqual(before[key], after[key]));
}
