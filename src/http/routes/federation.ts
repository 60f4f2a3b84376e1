import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import {
  changeMembers,
  type Federations,
  forwardChange,
  isWorker,
  Ledgers,
  membersView,
  parseMembersChange,
} from '../../federation/index.ts';
import type { Authenticator } from '../../identity/index.ts';
import type { Version } from '../../lib/version.ts';
import { MAX_MEMBERS, requestSchema, ServiceSchema, TOPOLOGIES } from '../../model/service/index.ts';
import { findService, oldVersion } from '../../services/index.ts';
import { ETAG, errors, FEDERATION_ERRORS, withMedia } from '../answers.ts';
import { callerCredential, federationCaller, servicePrincipal } from '../authentication.ts';
import { beforeBody, readJsonBody } from '../body.ts';
import { HttpError } from '../errors.ts';
import type { OpenResponses } from '../open-answers.ts';
import { Flag, IfMatch, Name, nameParam, queryParam, readIfMatch, readWait, toEtag } from '../params.ts';

export interface FederationDeps {
  readonly authenticator: Authenticator;
  readonly open: OpenResponses;
  readonly federations: Federations;
}

const tags = ['federation'];
const Include = Type.Object({
  include: Type.Optional(Type.Enum(['status'], { description: '`status` adds what is known of each member' })),
});
const Wait = Type.Object({
  wait: Type.Optional(
    Type.Integer({
      description: 'seconds to wait until all members have the change; at the coordinator',
      minimum: 0,
      maximum: 60,
    }),
  ),
});
const Pending = Type.Optional(
  Type.Array(
    Type.Object({
      member: Type.String({ description: '`<cluster id>/<service>`' }),
      reason: Type.String(),
      next_attempt_seconds: Type.Optional(
        Type.Integer({ description: 'the manager tries again within this many seconds' }),
      ),
    }),
    { description: 'members that do not have the change yet' },
  ),
);
const Force = Type.Object({ force: Flag('ends members at once, whatever jobs they have') });
const Warnings = Type.Optional(
  Type.Array(
    Type.String({ description: 'members that do not have the change yet, and why; and names that are not members' }),
  ),
);

const Common = {
  priority: Type.Optional(Type.Integer({ description: 'lower comes first; 101 and above is never used', minimum: 0 })),
  headers: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      description: 'headers that are sent with a delegated job; the values are never shown again',
    }),
  ),
};
const ServiceMember = Type.Object(
  {
    type: Type.Optional(Type.Enum(['oscar'])),
    cluster_id: Type.String({
      description: 'the cluster, by its id in `clusters` or in the registry of the operator',
      pattern: '^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$',
    }),
    service_name: Type.String({
      description: 'the name of the service there',
      pattern: '^[a-z0-9]([a-z0-9-]{0,37}[a-z0-9])?$',
    }),
    ...Common,
  },
  { title: 'ServiceMember', description: 'A service on another cluster' },
);
const EndpointMember = Type.Object(
  {
    type: Type.Enum(['endpoint']),
    url: Type.String({ description: 'where the event is posted', format: 'uri', pattern: '^https?://' }),
    ssl_verify: Type.Optional(Type.Boolean({ description: 'verify the certificate; true if left out' })),
    ...Common,
  },
  { title: 'EndpointMember', description: 'Any URL that receives the event' },
);
const MemberList = Type.Array(Type.Union([ServiceMember, EndpointMember]), { maxItems: MAX_MEMBERS });
const clusters = Type.Optional(
  Type.Unsafe({
    ...requestSchema(ServiceSchema.properties.clusters),
    description: 'clusters of these members that the definition does not have, by id',
  }),
);

/** The body of each verb. Both spellings of the key are read, and a bare list; without a list nothing changes. */
const BODIES = {
  POST: (key: string) =>
    Type.Object({ [key]: Type.Optional(MemberList), clusters }, { examples: [{ [key]: [EXAMPLE_MEMBER] }] }),
  PUT: (key: string) =>
    Type.Object(
      {
        [key]: Type.Optional(MemberList),
        update: Type.Optional({
          ...MemberList,
          description:
            'what the members become, in the same order; if left out, each entry changes the member it names',
        }),
        clusters,
      },
      { examples: [{ [key]: [EXAMPLE_MEMBER], update: [{ ...EXAMPLE_MEMBER, priority: 20 }] }] },
    ),
  DELETE: (key: string) =>
    Type.Object(
      {
        [key]: Type.Optional({ ...MemberList, description: 'all members if left out or empty' }),
        delete: Type.Optional(Type.Boolean({ description: '`false` leaves them as services of their own' })),
        force: Type.Optional(Type.Boolean({ description: 'as the query parameter' })),
      },
      { 'x-optional': true, examples: [{ [key]: [EXAMPLE_MEMBER] }] },
    ),
} as const;

const EXAMPLE_MEMBER = { cluster_id: 'oscar-cluster-b', service_name: 'grayify-b', priority: 10 };

/** A member as it is shown; its state only with `include=status`. */
const MemberSchema = Type.Object(
  {
    ...ServiceSchema.properties.federation.properties.members.items.properties,
    state: Type.Optional(Type.Enum(['ready', 'pending', 'unreachable', 'conflict', 'removing', 'removed-by-owner'])),
    revision: Type.Optional(Type.Integer({ description: 'the revision of the definition that it has' })),
    last_seen: Type.Optional(Type.String({ format: 'date-time' })),
    reason: Type.Optional(Type.String({ description: 'why it is not ready' })),
    note: Type.Optional(Type.String({ description: 'what cannot be guaranteed for a member at a Go manager' })),
  },
  { title: 'Member' },
);
const Conditions = Type.Optional(
  Type.Array(Type.Object({ type: Type.String(), reason: Type.String() }), {
    description: 'conditions that the owner must know, with `include=status`',
  }),
);

/**
 * One resource with two names: `replicas` in the original proposal, `federation` and `members` in current clients
 * (docs/federation.md#members).
 */
export function federationRoutes(app: FastifyInstance, deps: FederationDeps): void {
  const spellings = [
    { url: '/system/federation/:name', key: 'members', resource: 'Federation', noun: 'FederationMembers' },
    { url: '/system/replicas/:name', key: 'replicas', resource: 'Replicas', noun: 'Replicas' },
  ] as const;
  for (const { url, key, resource, noun } of spellings) {
    const view = Type.Object(
      {
        topology: Type.Enum([...TOPOLOGIES]),
        [key]: Type.Union([Type.Array(MemberSchema), Type.Null()]),
        conditions: Conditions,
        pending: Pending,
        warnings: Warnings,
      },
      { title: resource },
    );
    const read = {
      operationId: `get${resource}`,
      summary: 'Topology and members',
      tags,
      params: Name,
      querystring: Include,
      response: { 200: withMedia('The members', { 'application/json': view }, ETAG) },
    };
    app.get(url, { schema: read }, async (request, reply) => {
      const { version, view: seen } = await viewFor(request, deps);
      return reply.header('etag', toEtag(version)).send(spelt(key, seen));
    });
    for (const [method, verb, summary] of VERBS) {
      const schema = {
        operationId: `${verb}${noun}`,
        summary,
        tags,
        params: Name,
        querystring: method === 'DELETE' ? Force : Wait,
        headers: IfMatch,
        body: BODIES[method](key),
        response: {
          200: withMedia('The members after the change', { 'application/json': view }, ETAG),
          ...FEDERATION_ERRORS,
          ...errors(412),
        },
      };
      app.route({
        method,
        url,
        schema,
        ...beforeBody((request) => who(request, deps)),
        async handler(request, reply) {
          const { version, view: seen } = await change(method, request, reply, deps);
          if (version !== undefined) reply.header('etag', toEtag(version));
          return reply.send(spelt(key, seen));
        },
      });
    }
  }
}

interface Seen {
  readonly view: ReturnType<typeof membersView> & {
    readonly pending?: readonly object[];
    readonly warnings?: readonly string[];
  };
  /** Absent if another cluster is the coordinator. */
  readonly version?: Version;
}

const spelt = (key: string, { topology, members, ...more }: Seen['view']) => ({
  topology,
  [key]: members,
  ...more,
});

const VERBS = [
  ['POST', 'add', 'Add members'],
  ['PUT', 'change', 'Change members'],
  ['DELETE', 'remove', 'Remove members; without a body all of them'],
] as const;

type Method = (typeof VERBS)[number][0];

const who = async (request: FastifyRequest, { authenticator, federations }: FederationDeps) =>
  servicePrincipal(request, authenticator, await federations.workers.catalog.services.get(nameParam(request)));

async function viewFor(request: FastifyRequest, deps: FederationDeps): Promise<Seen & { readonly version: Version }> {
  const { coordination, workers } = deps.federations;
  const principal = await who(request, deps);
  const { service, version } = await findService(principal, 'read-federation', nameParam(request), workers.catalog);
  const { include } = request.query as { include?: string };
  if (include !== 'status' || service.federation?.role !== 'coordinator') {
    return { version, view: membersView(service.definition) };
  }
  const entry = await new Ledgers(coordination).read(service.federation.uid);
  const conditions = await coordination.conditions?.(service);
  return { version, view: { ...membersView(service.definition, entry?.ledger), ...(conditions && { conditions }) } };
}

async function change(
  method: Method,
  request: FastifyRequest,
  reply: FastifyReply,
  deps: FederationDeps,
): Promise<Seen> {
  const { federations } = deps;
  const principal = await who(request, deps);
  // The minimum permission for any change; `changeMembers` checks for more if needed.
  const record = await findService(principal, 'add-member', nameParam(request), federations.workers.catalog);
  const body = readMembersBody(request, method);
  const ifMatch = readIfMatch(request);
  const wait = method === 'DELETE' ? undefined : queryParam(request, 'wait');
  const waitMs = wait === undefined ? 0 : readWait(wait);
  if (isWorker(record)) {
    if (waitMs > 0) throw new HttpError('bad-request', 'wait: works at the coordinator of the federation only');
    // A change at the coordinator also changes its workers, so that the version of the worker is sufficient.
    if (ifMatch !== undefined && ifMatch !== record.version) throw oldVersion(nameParam(request));
    const passed = { method, ...(body !== undefined && { body }) };
    const answer = await forwardChange(
      record,
      { principal, credential: callerCredential(request) },
      passed,
      federations,
    );
    const members = answer.members.length > 0 ? answer.members : null;
    const pending = answer.pending.map(
      (member) => `${member}: does not have the change yet: see the status at the coordinator`,
    );
    return { view: { topology: answer.topology, members, ...toWarnings(pending, answer.absent) } };
  }
  const caller = federationCaller(principal, request);
  const intention = parseMembersChange(method, body);
  const {
    record: changed,
    pending,
    absent,
  } = await changeMembers(
    caller,
    nameParam(request),
    intention,
    federations.coordination,
    ifMatch,
    waitMs > 0 ? deps.open.until(reply, waitMs) : undefined,
  );
  const reasons = pending.map(({ member, reason }) => `${member}: ${reason}`);
  return {
    version: changed.version,
    view: {
      ...membersView(changed.service.definition),
      ...toPending(pending, federations.coordination),
      ...toWarnings(reasons, absent),
    },
  };
}

/** What is pending, and for how long at most until the next attempt. */
function toPending(
  pending: Awaited<ReturnType<typeof changeMembers>>['pending'],
  { nextAttemptMs }: Pick<Federations['coordination'], 'nextAttemptMs'>,
) {
  if (pending.length === 0) return {};
  const next = nextAttemptMs === undefined ? {} : { next_attempt_seconds: Math.ceil(nextAttemptMs / 1000) };
  return { pending: pending.map(({ member, reason }) => ({ member, reason, ...next })) };
}

function toWarnings(pending: readonly string[], absent: readonly string[] = []) {
  const warnings = [...pending, ...absent.map((name) => `${name}: is not a member and was ignored`)];
  return warnings.length > 0 ? { warnings } : {};
}

/** DELETE may have no body. */
function readMembersBody(request: FastifyRequest, method: Method): unknown {
  const isEmpty = !(request.body instanceof Uint8Array) || request.body.length === 0;
  const body = method === 'DELETE' && isEmpty ? undefined : readJsonBody(request);
  const { force } = request.query as { force?: string };
  if (method !== 'DELETE' || force !== 'true') return body;
  if (Array.isArray(body)) return { members: body, force: true };
  // A body that is invalid stays as it is, so that it is rejected.
  const isValid = typeof (body ?? {}) === 'object' && ['boolean', 'undefined'].includes(typeof Object(body).force);
  return isValid ? { ...(body as object), force: true } : body;
}
