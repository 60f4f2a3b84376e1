import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Coordination, readMemberStates } from '../../federation/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import { cores, size } from '../../lib/amounts.ts';
import { type Check, checkMember, failure, infoChecks, passed } from '../../model/cluster-checks.ts';
import type { AuditRecord, NodeCapacity } from '../../ports/index.ts';
import { errors } from '../answers.ts';
import { systemPrincipal } from '../authentication.ts';
import { HttpError } from '../errors.ts';
import type { Unreadiness } from './health.ts';
import type { Info } from './info.ts';

export interface AdministrationDeps {
  readonly authenticator: Authenticator;
  /** What `/system/info` tells the administrator. */
  readonly readInfo: () => Promise<Info>;
  readonly unreadiness: () => readonly Unreadiness[];
  readonly nodes: () => readonly NodeCapacity[];
  readonly coordination: Pick<Coordination, 'here' | 'journal' | 'conditions' | 'services'>;
  /** Absent if this manager keeps no audit records. */
  readonly auditRecords?: (() => readonly AuditRecord[]) | undefined;
}

const CheckSchema = Type.Object({
  where: Type.String({ description: 'the cluster, a service, or a member' }),
  what: Type.String(),
  ok: Type.Boolean(),
  warning: Type.Optional(Type.Boolean({ description: 'works, but is not as it should be' })),
  said: Type.String({ description: 'what was found, or what is wrong and what to do about it' }),
});

const AuditSchema = Type.Object({
  audit: Type.Integer(),
  time: Type.String(),
  action: Type.String(),
  actor: Type.String(),
  object: Type.Optional(Type.String()),
  outcome: Type.Enum(['success', 'refused', 'failed']),
  reason: Type.Optional(Type.String()),
  request: Type.Optional(Type.String()),
  address: Type.Optional(Type.String()),
  count: Type.Optional(Type.Integer()),
  details: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Number()]))),
});

/** For the administrator and the users in USERS_ADMIN: the checks of `oscar doctor`, and the last audit records. */
export function administrationRoutes(app: FastifyInstance, deps: AdministrationDeps): void {
  const requireOperator = async (request: FastifyRequest) => {
    const principal = await systemPrincipal(request, deps.authenticator);
    if (principal.kind === 'admin' || principal.operator) return;
    throw new HttpError('operators-only', 'only the administrator and the users in USERS_ADMIN see this');
  };
  const tags = ['manager'];
  const checks = {
    operationId: 'listChecks',
    summary: 'The checks of `oscar doctor` that this manager can make itself; for the administrator',
    tags,
    response: { 200: Type.Object({ checks: Type.Array(CheckSchema) }, { title: 'Checks' }), ...errors(403) },
  };
  app.get('/system/checks', { schema: checks }, async (request) => {
    await requireOperator(request);
    return { checks: await makeChecks(deps) };
  });
  const audit = {
    operationId: 'listAuditRecords',
    summary: 'The newest audit records that this manager knows, newest first; for the administrator',
    tags,
    response: { 200: Type.Object({ records: Type.Array(AuditSchema) }, { title: 'AuditRecords' }), ...errors(403) },
  };
  app.get('/system/audit', { schema: audit }, async (request) => {
    await requireOperator(request);
    return { records: deps.auditRecords?.() ?? [] };
  });
}

async function makeChecks(deps: AdministrationDeps): Promise<Check[]> {
  const { coordination } = deps;
  const { clusterId } = coordination.here;
  const [info, members] = await Promise.all([deps.readInfo(), memberChecks(coordination)]);
  const reasons = deps.unreadiness();
  return [
    ...(reasons.length === 0 ? [passed(clusterId, 'ready', 'the manager can do its work')] : []),
    ...reasons.map(({ reason, message }) => failure(clusterId, reason, message)),
    passed(clusterId, 'version', info.manager_version),
    checkRoom(clusterId, deps.nodes()),
    ...infoChecks(clusterId, info),
    ...members,
  ];
}

/** Members that are not ready, and what the owners of federations must know. */
async function memberChecks(coordination: AdministrationDeps['coordination']): Promise<Check[]> {
  const services = new Set<string>();
  const checks: Check[] = [];
  let ready = 0;
  for await (const { service, member, state, reason } of readMemberStates(coordination)) {
    services.add(service);
    if (state === 'ready') ready++;
    else checks.push(checkMember(member, state, reason));
  }
  for (const name of services) {
    const record = await coordination.services.get(name);
    const conditions = record ? await coordination.conditions?.(record.service) : [];
    for (const { type, reason } of conditions ?? []) checks.push(failure(name, 'grant', `${type}: ${reason}`));
  }
  return ready > 0 ? [passed('federations', 'members', `${ready} ready`), ...checks] : checks;
}

function checkRoom(id: string, nodes: readonly NodeCapacity[]): Check {
  const ready = nodes.filter((node) => node.ready);
  if (ready.length === 0) return failure(id, 'room', 'no node accepts work');
  const free = (of: 'cpu' | 'memory') => ready.reduce((sum, node) => sum + node.total[of] - node.requested[of], 0);
  if (free('cpu') <= 0) return passed(id, 'room', 'the cluster is full');
  return passed(id, 'room', `${cores(free('cpu'))} and ${size(free('memory'), Math.floor)} free`);
}
