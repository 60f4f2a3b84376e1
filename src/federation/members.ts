import { Type } from 'typebox';
import {
  type DefinedCluster,
  decode,
  MAX_MEMBERS,
  type Problem,
  type Replica,
  ServiceSchema,
  type StorageProviders,
} from '../model/service/index.ts';
import { FederationError } from '../peers/index.ts';
import { memberKey, repeatedMembers } from './topology.ts';

/** A request to the replicas resource, independent of the spelling that the client uses. */
export type MembersChange = MembersVerb & {
  /** Merged with the clusters of the definition. */
  readonly clusters?: Record<string, DefinedCluster>;
  readonly storageProviders?: StorageProviders;
};

type MembersVerb =
  | { readonly verb: 'add'; readonly members: readonly Replica[] }
  | { readonly verb: 'change'; readonly changes: readonly { readonly from: Replica; readonly to: Replica }[] }
  | {
      readonly verb: 'remove';
      readonly members: readonly Replica[] | 'all';
      readonly end: 'undo' | 'detach';
      /** End members at once, even if they have jobs. */
      readonly force: boolean;
    };

const { federation, clusters, storage_providers } = ServiceSchema.properties;
// An empty list differs from no list here, and `false` from no value.
const members = Type.Optional(
  Type.Array(federation.properties.members.items, { keepZero: true, maxItems: MAX_MEMBERS }),
);
const BodySchema = Type.Object({
  members,
  replicas: members,
  update: members,
  clusters,
  storage_providers,
  delete: Type.Optional(Type.Boolean({ keepZero: true })),
  force: Type.Optional(Type.Boolean({ keepZero: true })),
});

interface Body {
  readonly members?: Replica[];
  readonly replicas?: Replica[];
  readonly update?: Replica[];
  readonly clusters?: Record<string, DefinedCluster>;
  readonly storage_providers?: StorageProviders;
  readonly delete?: boolean;
  readonly force?: boolean;
}

/**
 * Reads a body of the replicas resource (docs/federation.md#members): the key `members` or `replicas`, or a bare list; a PUT
 * with the old and the new members, or with one list of them; a DELETE of some, or of all.
 */
export function parseMembersChange(method: 'POST' | 'PUT' | 'DELETE', body: unknown): MembersChange {
  const problems: Problem[] = [];
  const read = readBody(method, body, problems);
  const named = read.members ?? read.replicas;
  for (const [key, list] of Object.entries({ members: named ?? [], update: read.update ?? [] })) {
    for (const index of repeatedMembers(list)) problems.push({ path: `${key}[${index}]`, message: 'is listed twice' });
  }
  const intention = toMembersVerb(method, read, named, problems);
  if (problems.length > 0) {
    const lines = problems.map(({ path, message }) => (path ? `${path}: ${message}` : message));
    throw new FederationError('invalid-federation', lines.join('\n'));
  }
  return {
    ...intention,
    ...(read.clusters && { clusters: read.clusters }),
    ...(read.storage_providers && { storageProviders: read.storage_providers }),
  };
}

function readBody(method: string, body: unknown, problems: Problem[]): Body {
  if (method === 'DELETE' && (body === undefined || body === null || body === '')) return {};
  const whole = Array.isArray(body) ? { members: body } : body;
  const read = decode(BodySchema, whole, problems) as Body;
  return {
    ...read,
    ...normalizeMembers(read, 'members'),
    ...normalizeMembers(read, 'replicas'),
    ...normalizeMembers(read, 'update'),
  };
}

const normalizeMembers = (body: Body, key: 'members' | 'replicas' | 'update') =>
  body[key] && { [key]: body[key].map((member) => ({ ...member, type: member.type.trim().toLowerCase() })) };

function toMembersVerb(
  method: 'POST' | 'PUT' | 'DELETE',
  { update, delete: ends = true, force = false }: Body,
  named: readonly Replica[] | undefined,
  problems: Problem[],
): MembersVerb {
  if (method === 'POST') return { verb: 'add', members: named ?? [] };
  if (method === 'PUT') return { verb: 'change', changes: pairChanges(named, update, problems) };
  const all = !named || named.length === 0 || (named.length === 1 && named.every(isBlank));
  return { verb: 'remove', members: all ? 'all' : named, end: ends ? 'undo' : 'detach', force };
}

const isBlank = ({ cluster_id, service_name, url }: Replica) => cluster_id === '' && service_name === '' && url === '';

/** Two lists of equal length are paired by position; otherwise an entry changes the member that it names. */
function pairChanges(
  named: readonly Replica[] | undefined,
  update: readonly Replica[] | undefined,
  problems: Problem[],
) {
  if (!named || !update) return (named ?? update ?? []).map((member) => ({ from: member, to: member }));
  if (named.length === update.length) return named.map((from, index) => ({ from, to: update[index] ?? from }));
  const known = new Set(named.map(memberKey));
  for (const [index, to] of update.entries()) {
    if (!known.has(memberKey(to))) {
      problems.push({
        path: `update[${index}]`,
        message: 'names none of the listed members: give one update for each member, in the same order',
      });
    }
  }
  return update.map((to) => ({ from: to, to }));
}

/** The members that the change names, and that must exist: those to change or remove. */
export function listNamedMembers(intention: MembersChange): readonly Replica[] {
  if (intention.verb === 'change') return intention.changes.map(({ from }) => from);
  return intention.verb === 'remove' && intention.members !== 'all' ? intention.members : [];
}

/** The name of a member in messages to users. */
export const memberName = ({ type, url, cluster_id, service_name }: Replica): string =>
  type === 'endpoint' ? url : `${cluster_id}/${service_name}`;

/** The members after the change. */
export function applyMembersChange(intention: MembersChange, current: readonly Replica[]): Replica[] {
  switch (intention.verb) {
    case 'add': {
      const given = new Map(intention.members.map((member) => [memberKey(member), member]));
      const kept = current.map((member) => given.get(memberKey(member)) ?? member);
      return [...kept, ...withoutMembers(intention.members, current)];
    }
    case 'change': {
      const changed = new Map(intention.changes.map(({ from, to }) => [memberKey(from), to]));
      return current.map((member) => changed.get(memberKey(member)) ?? member);
    }
    case 'remove':
      return intention.members === 'all' ? [] : withoutMembers(current, intention.members);
  }
}

/** The entries of `list` whose member is not in `others`. */
export function withoutMembers(list: readonly Replica[], others: readonly Replica[]): Replica[] {
  const named = new Set(others.map(memberKey));
  return list.filter((member) => !named.has(memberKey(member)));
}
