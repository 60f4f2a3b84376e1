import type { IssuerAliases } from '../../identity/index.ts';
import {
  type Field,
  fields,
  isObject,
  mapRead,
  nested,
  objectField,
  optional,
  type Read,
  sha256Field,
  urlField,
  wholeNumberField,
} from '../../lib/fields.ts';
import { clusterIdField, type FederationOrigin, serviceNameField } from '../../model/service/index.ts';
import type { MemberKey, Probe, WorkerOrder, WorkerState } from '../peer.ts';
import * as field from './fields.ts';

/** What managers say to each other (docs/peer-protocol.md): headers and bodies, read and written by both sides. */

/** Who is to be made a worker of whom. Holds the member key: never logged. */
export const FEDERATION_HEADER = 'x-oscar-federation';

/** In the answer to a removal, where the worker stays since it has another key. */
export const WORKER_HEADER = 'x-oscar-worker';
export const ANOTHER_KEY = 'another-key';

/** The signature of a coordinator. */
export const MEMBER_HEADER = 'x-oscar-member';

/** What an order says beside the definition, which is the body. */
export type OrderHeader = Omit<WorkerOrder, 'name' | 'body'>;

interface WireOrigin extends Omit<FederationOrigin, 'clusterId'> {
  readonly cluster_id: string;
}

/** Not every cluster has a store that others reach. */
const store: Field<string> = {
  is: `${urlField.is}, or empty`,
  read: (raw) => (raw === '' ? raw : urlField.read(raw)),
};

const origin = fields<WireOrigin>({
  cluster_id: clusterIdField,
  service: serviceNameField,
  endpoint: urlField,
  store,
});

const originField = nested('an object with cluster_id, service, endpoint and store', origin);

const toWireOrigin = ({ clusterId: id, service, endpoint, store: at }: FederationOrigin): WireOrigin => ({
  cluster_id: id,
  service,
  endpoint,
  store: at,
});

const toOrigin = ({ cluster_id, ...rest }: WireOrigin): FederationOrigin => ({ clusterId: cluster_id, ...rest });

/** More issuers than any cluster has; the whole header must stay below the limit of servers. */
const MOST_ISSUERS = 16;

const issuers: Field<IssuerAliases> = {
  is: 'an object with the URL of an issuer for each alias',
  read: (raw) => {
    if (!isObject(raw)) return undefined;
    const entries = Object.entries(raw);
    const areUrls = entries.every(([, issuer]) => urlField.read(issuer) !== undefined);
    return areUrls && entries.length <= MOST_ISSUERS ? (Object.fromEntries(entries) as IssuerAliases) : undefined;
  },
};

const readKey = fields<Omit<MemberKey, 'owner'>>({ uid: field.uid, member: field.member, key: field.key });

const readWireOrder = fields<Omit<OrderHeader, 'origin'> & { readonly origin: WireOrigin }>({
  uid: field.uid,
  revision: wholeNumberField,
  member: field.member,
  key: field.key,
  digest: sha256Field,
  origin: originField,
  issuers: optional(issuers),
});

export function writeOrder({ uid, revision, member, key, digest, origin: from, issuers: of }: OrderHeader): string {
  const order = { uid, revision, member, key: key.reveal(), digest, origin: toWireOrigin(from) };
  return encode({ ...order, ...(of && { issuers: of }) });
}

export function readOrder(header: string): Read<OrderHeader> {
  const read = readWireOrder(decode(header));
  if ('problems' in read) return prefixProblems(FEDERATION_HEADER, read);
  return { value: { ...read.value, origin: toOrigin(read.value.origin) } };
}

/** The key alone, for a member that never saw the order which would have brought it. */
export function writeKey({ uid, member, key }: MemberKey): string {
  return encode({ uid, member, key: key.reveal() });
}

/** The key in an order or alone. */
export function readBroughtKey(header: string): Read<MemberKey> {
  return prefixProblems(FEDERATION_HEADER, readKey(decode(header)));
}

/** What stands in the header of a signed request. */
export interface MemberClaim {
  readonly uid: string;
  readonly member: string;
  /** Milliseconds since 1970, by the clock of who signed. */
  readonly time: number;
  readonly nonce: string;
  /** HMAC-SHA-256 in hexadecimal. */
  readonly signature: string;
}

const readMemberFields = fields<MemberClaim>({
  uid: field.uid,
  member: field.member,
  time: {
    is: 'milliseconds since 1970',
    read: (raw) => (typeof raw === 'string' && /^[1-9]\d{0,14}$/.test(raw) ? Number(raw) : undefined),
  },
  nonce: field.nonce,
  signature: sha256Field,
});

export function writeMember({ uid, member, time, nonce, signature }: MemberClaim): string {
  return [uid, member, time, nonce, signature].join(';');
}

export function readMember(header: string): Read<MemberClaim> {
  const [uid, member, time, nonce, signature, ...more] = header.split(';');
  if (more.length > 0) return { problems: [`${MEMBER_HEADER}: has more than five parts`] };
  return prefixProblems(MEMBER_HEADER, readMemberFields({ uid, member, time, nonce, signature }));
}

const PROBES: { readonly [F in Probe['found']]: (raw: unknown) => Read<Omit<Extract<Probe, { found: F }>, 'found'>> } =
  {
    nothing: fields({ instance: field.instance }),
    own: fields({ instance: field.instance, version: field.version }),
    member: fields({ instance: field.instance, uid: field.uid, revision: wholeNumberField }),
    taken: fields({ instance: field.instance }),
  };

/** The answer to a probe; a {@link Probe} is written as it is. */
export function readProbe(raw: unknown): Read<Probe> {
  const found = isObject(raw) ? raw['found'] : undefined;
  if (typeof found !== 'string' || !Object.hasOwn(PROBES, found)) {
    return { problems: [`found is not one of ${Object.keys(PROBES).join(', ')}`] };
  }
  const read = PROBES[found as Probe['found']](raw);
  return 'problems' in read ? read : { value: { found, ...read.value } as Probe };
}

const readWireState = fields<WorkerState>({
  instance: field.instance,
  revision: wholeNumberField,
  digest: sha256Field,
});

export function writeState({ instance, revision, digest }: WorkerState) {
  return { instance, found: 'worker', revision, digest } as const;
}

export function readState(raw: unknown): Read<WorkerState> {
  if (!isObject(raw) || raw['found'] !== 'worker') return { problems: ['found is not worker'] };
  return readWireState(raw);
}

/** What an update brings. */
export interface Change {
  readonly revision: number;
  readonly digest: string;
  readonly definition: Readonly<Record<string, unknown>>;
  /** Where the coordinator is by now. Earlier managers did not say it. */
  readonly origin?: FederationOrigin;
  /** As in an order. */
  readonly issuers?: IssuerAliases;
}

/** The definition goes in as the text that it is, so that both sides have the same bytes of it. */
export function writeChange(order: Pick<WorkerOrder, 'revision' | 'digest' | 'origin' | 'body' | 'issuers'>): string {
  const { revision, digest, origin: from, body, issuers: of } = order;
  const said = JSON.stringify({ revision, digest, origin: toWireOrigin(from), ...(of && { issuers: of }) });
  return `${said.slice(0, -1)},"definition":${body.reveal()}}`;
}

const readWireChange = fields<Omit<Change, 'origin'> & { readonly origin?: WireOrigin }>({
  revision: wholeNumberField,
  digest: sha256Field,
  definition: objectField,
  origin: optional(originField),
  issuers: optional(issuers),
});

export function readChange(raw: unknown): Read<Change> {
  return mapRead(readWireChange(raw), ({ origin: from, ...change }) => ({
    ...change,
    ...(from && { origin: toOrigin(from) }),
  }));
}

function prefixProblems<T>(header: string, read: Read<T>): Read<T> {
  return 'value' in read ? read : { problems: read.problems.map((problem) => `${header}: ${problem}`) };
}

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Undefined for what is not base64url of JSON. Node would read much as base64 that is none. */
function decode(header: string): unknown {
  const bytes = Buffer.from(header, 'base64url');
  if (bytes.toString('base64url') !== header) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
