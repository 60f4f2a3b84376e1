import type { FederationOrigin } from '../../service/index.ts';
import * as field from './fields.ts';
import { type Field, fields, isObject, nested, type Read } from './fields.ts';
import type { MemberKey, Probe, WorkerOrder, WorkerState } from './peer.ts';

/** What managers say to each other (docs/peer-protocol.md): headers and bodies, read and written by both sides. */

/** Who is to be made a worker of whom. Holds the member key: never logged. */
export const FEDERATION_HEADER = 'x-oscar-federation';

/** The signature of a coordinator. */
export const MEMBER_HEADER = 'x-oscar-member';

/** What an order says beside the definition, which is the body. */
export type OrderHeader = Omit<WorkerOrder, 'name' | 'body'>;

interface WireOrigin extends Omit<FederationOrigin, 'clusterId'> {
  readonly cluster_id: string;
}

/** Not every cluster has a store that others reach. */
const store: Field<string> = {
  is: `${field.url.is}, or empty`,
  read: (raw) => (raw === '' ? raw : field.url.read(raw)),
};

const origin = fields<WireOrigin>({
  cluster_id: field.clusterId,
  service: field.serviceName,
  endpoint: field.url,
  store,
});

const readKey = fields<MemberKey>({ uid: field.uid, member: field.member, key: field.key });

const readWireOrder = fields<Omit<OrderHeader, 'origin'> & { readonly origin: WireOrigin }>({
  uid: field.uid,
  revision: field.revision,
  member: field.member,
  key: field.key,
  digest: field.sha256,
  origin: nested('an object with cluster_id, service, endpoint and store', origin),
});

export function writeOrder({ uid, revision, member, key, digest, origin: from }: OrderHeader): string {
  const { clusterId, service, endpoint, store: at } = from;
  const wire = { cluster_id: clusterId, service, endpoint, store: at };
  return pack({ uid, revision, member, key: key.reveal(), digest, origin: wire });
}

export function readOrder(header: string): Read<OrderHeader> {
  const read = readWireOrder(unpack(header));
  if ('problems' in read) return about(FEDERATION_HEADER, read);
  const { cluster_id, service, endpoint, store: at } = read.value.origin;
  return { value: { ...read.value, origin: { clusterId: cluster_id, service, endpoint, store: at } } };
}

/** The key alone, for a member that never saw the order which would have brought it. */
export function writeKey({ uid, member, key }: MemberKey): string {
  return pack({ uid, member, key: key.reveal() });
}

/** The key in an order or alone. */
export function readBroughtKey(header: string): Read<MemberKey> {
  return about(FEDERATION_HEADER, readKey(unpack(header)));
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
  signature: field.sha256,
});

export function writeMember({ uid, member, time, nonce, signature }: MemberClaim): string {
  return [uid, member, time, nonce, signature].join(';');
}

export function readMember(header: string): Read<MemberClaim> {
  const [uid, member, time, nonce, signature, ...more] = header.split(';');
  if (more.length > 0) return { problems: [`${MEMBER_HEADER}: has more than five parts`] };
  return about(MEMBER_HEADER, readMemberFields({ uid, member, time, nonce, signature }));
}

const PROBES: { readonly [F in Probe['found']]: (raw: unknown) => Read<Omit<Extract<Probe, { found: F }>, 'found'>> } =
  {
    nothing: fields({ instance: field.instance }),
    own: fields({ instance: field.instance, version: field.version }),
    member: fields({ instance: field.instance, uid: field.uid, revision: field.revision }),
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
  revision: field.revision,
  digest: field.sha256,
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
}

/** The definition goes in as the text that it is, so that both sides have the same bytes of it. */
export function writeChange({ revision, digest, body }: Pick<WorkerOrder, 'revision' | 'digest' | 'body'>): string {
  return `{"revision":${revision},"digest":${JSON.stringify(digest)},"definition":${body.reveal()}}`;
}

export const readChange = fields<Change>({
  revision: field.revision,
  digest: field.sha256,
  definition: field.object,
});

function about<T>(header: string, read: Read<T>): Read<T> {
  return 'value' in read ? read : { problems: read.problems.map((problem) => `${header}: ${problem}`) };
}

const pack = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Undefined for what is not base64url of JSON. Node would read much as base64 that is none. */
function unpack(header: string): unknown {
  const bytes = Buffer.from(header, 'base64url');
  if (bytes.toString('base64url') !== header) return undefined;
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}
