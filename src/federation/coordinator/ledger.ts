import type { Version } from '../../lib/version.ts';
import {
  JOURNAL_STATE_BYTES,
  type Journal,
  type JournalEntry,
  type JournalState,
  type JournalValue,
  type ServiceRecord,
  type ServiceStore,
  StoreError,
} from '../../ports/index.ts';

/**
 * What the coordinator knows about its federation, in one journal entry (`federation/<uid>`): ids, addresses, digests and
 * states, never definitions or secrets. Every write is a compare-and-swap on the version that was read, so there is one
 * writer at a time, and recovery after a crash reads what was begun.
 */
export interface Ledger {
  readonly uid: string;
  /** The name of the coordinator's own service. */
  readonly service: string;
  readonly serviceUid: string;
  /**
   * `creating`: everything is undone unless the create commits. `active`: members are brought to the revision. `ending`: the
   * service is removed, and the members must be ended.
   */
  readonly phase: 'creating' | 'active' | 'ending';
  readonly revision: number;
  readonly begunAt: number;
  readonly members: readonly LedgerMember[];
}

export interface LedgerMember {
  readonly clusterId: string;
  readonly service: string;
  readonly endpoint: string;
  readonly verify: boolean;
  readonly guarded: boolean;
  readonly kind: 'oscar' | 'upstream';
  /** SHA-256 of the member key, which the secret store has under the kind `member` and this id. */
  readonly keyId: string;
  /** The id of the next key; the member may already have it. */
  readonly nextKeyId?: string;
  /** When the member got its current key. */
  readonly keyedAt?: number;
  /**
   * `wanted`: to be created. `made`: created, with this revision. `leaving`: gets no new jobs, and is ended when it has
   * none. `undoing`: to be ended at once. `conflict`: another service has its name. `left`: its owner deleted it on its
   * cluster.
   */
  readonly state: 'wanted' | 'made' | 'leaving' | 'undoing' | 'conflict' | 'left';
  /** No create request was ever sent, so there is nothing to end. Cleared before the first request is sent. */
  readonly unrequested?: boolean;
  /** How the member is ended. */
  readonly end?: 'undo' | 'detach';
  /** The member is ended at once, even if it has jobs. */
  readonly force?: boolean;
  readonly revision?: number;
  readonly digest?: string;
  readonly instance?: string;
  /** When the member last answered; `reason` says why it has not since. */
  readonly lastSeen?: number;
  readonly reason?: string;
  readonly since: number;
}

export interface LedgerEntry {
  readonly ledger: Ledger;
  readonly version: Version;
}

export const memberId = ({ clusterId, service }: Pick<LedgerMember, 'clusterId' | 'service'>) =>
  `${clusterId}/${service}`;

/** The ids of all keys that the member may have. */
export const listKeyIds = ({ keyId, nextKeyId }: Pick<LedgerMember, 'keyId' | 'nextKeyId'>): string[] =>
  nextKeyId === undefined ? [keyId] : [keyId, nextKeyId];

const PREFIX = 'federation/';
const journalKey = (uid: string) => `${PREFIX}${uid}`;

/** The ledgers in the journal. Every write is a compare-and-swap; a writer that lost the race gets `conflict`. */
export class Ledgers {
  readonly #journal: Journal;

  constructor({ journal }: { readonly journal: Journal }) {
    this.#journal = journal;
  }

  async read(uid: string): Promise<LedgerEntry | undefined> {
    const entry = await this.#journal.read(journalKey(uid));
    return entry && toLedgerEntry(entry);
  }

  async begin(ledger: Ledger): Promise<LedgerEntry> {
    const { version } = await this.#journal.begin(journalKey(ledger.uid), packLedger(ledger));
    return { ledger, version };
  }

  async advance({ version }: LedgerEntry, ledger: Ledger): Promise<LedgerEntry> {
    return { ledger, version: await this.#journal.advance(journalKey(ledger.uid), version, packLedger(ledger)) };
  }

  /** Claims the ledger for a change; undefined if another writer was faster. */
  async claim({ ledger, version }: LedgerEntry): Promise<LedgerEntry | undefined> {
    const claimed = await this.#journal.claim(journalKey(ledger.uid), version);
    return claimed === 'busy' ? undefined : { ledger, version: claimed };
  }

  async finish({ ledger, version }: LedgerEntry): Promise<void> {
    await this.#journal.finish(journalKey(ledger.uid), version);
  }

  /**
   * Applies a change to the current ledger, and retries if other writers interfere. Does not write if the change returns the
   * same ledger. Returns undefined if the ledger is gone.
   */
  async amend(uid: string, change: (ledger: Ledger) => Ledger): Promise<LedgerEntry | undefined> {
    for (;;) {
      const entry = await this.read(uid);
      if (!entry) return undefined;
      const ledger = change(entry.ledger);
      if (ledger === entry.ledger) return entry;
      try {
        return await this.advance(entry, ledger);
      } catch (error) {
        if (!isWriteConflict(error)) throw error;
      }
    }
  }

  async *all(): AsyncGenerator<LedgerEntry> {
    let page = await this.#journal.list(PREFIX);
    for (;;) {
      for (const entry of page.items) yield toLedgerEntry(entry);
      if (page.next === undefined) return;
      page = await this.#journal.list(PREFIX, page.next);
    }
  }
}

/** Whether another writer was first. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'conflict' || error.code === 'absent');
}

function toLedgerEntry({ key, state, version }: JournalEntry): LedgerEntry {
  return { ledger: unpackLedger(key.slice(PREFIX.length), state), version };
}

/**
 * Packs a ledger for the journal. An entry has 64 KiB, and a federation may have 100 members and as many that are being
 * ended. So a member is a list without field names, digests are in base64, and each cluster address is stored once. If that
 * is still too large, optional fields are dropped.
 */
export function packLedger(ledger: Ledger): JournalState {
  const whole = packMembers(ledger, (member) => member);
  return sizeOf(whole) <= JOURNAL_STATE_BYTES ? whole : packMembers(ledger, compactMember);
}

/** The size of the entry for this ledger without optional fields. */
export const packedSize = (ledger: Ledger): number => sizeOf(packMembers(ledger, compactMember));

const sizeOf = (state: JournalState) => Buffer.byteLength(JSON.stringify(state));

/** A reason marks a member as unreachable, so its beginning is kept. */
const COMPACT_REASON = 16;

/** Keeps only what is needed to update or end the member. */
function compactMember(member: LedgerMember): LedgerMember {
  const { digest: _, reason, ...known } = member;
  if (member.state !== 'undoing' && member.state !== 'leaving')
    return { ...known, ...(reason && { reason: reason.slice(0, COMPACT_REASON) }) };
  const { instance: __, lastSeen: ___, keyedAt: ____, ...ending } = known;
  return ending;
}

function packMembers(
  { uid: _, members, ...ledger }: Ledger,
  shown: (member: LedgerMember) => LedgerMember,
): JournalState {
  const addresses: JournalValue[][] = [];
  const indexes = new Map<string, number>();
  const addressIndex = ({ clusterId, endpoint, verify, guarded, kind }: LedgerMember) => {
    const place = [clusterId, endpoint, verify, guarded, kind];
    const known = JSON.stringify(place);
    if (!indexes.has(known)) indexes.set(known, addresses.push(place) - 1);
    return indexes.get(known) ?? 0;
  };
  const packed = members.map((member) => packMember(shown(member), addressIndex(member)));
  return { ...ledger, places: addresses, members: packed };
}

export function unpackLedger(uid: string, state: JournalState): Ledger {
  const { places, members, ...ledger } = state as unknown as Omit<Ledger, 'uid' | 'members'> & {
    places: PackedAddress[];
    members: PackedMember[];
  };
  return { uid, ...ledger, members: members.map((member) => unpackMember(member, places)) };
}

type PackedAddress = [
  clusterId: string,
  endpoint: string,
  verify: boolean,
  guarded: boolean,
  kind: LedgerMember['kind'],
];
type PackedMember = [
  place: number,
  service: string,
  keyId: string,
  state: LedgerMember['state'],
  since: number,
  end?: 'undo' | 'detach' | null,
  revision?: number | null,
  digest?: string | null,
  instance?: string | null,
  lastSeen?: number | null,
  reason?: string | null,
  nextKeyId?: string | null,
  keyedAt?: number | null,
  force?: boolean | null,
  unrequested?: boolean | null,
];

/**
 * Enough for a sentence with the answer of a Go manager. With a larger value fewer members fit without dropping optional
 * fields.
 */
const LONGEST_REASON = 240;

function packMember(member: LedgerMember, place: number): JournalValue[] {
  const { service, keyId, state, since, end, revision, digest, instance, lastSeen, reason } = member;
  const { nextKeyId, keyedAt, force, unrequested } = member;
  return trimNulls([
    place,
    service,
    compressDigest(keyId),
    state,
    since,
    end ?? null,
    revision ?? null,
    digest === undefined ? null : compressDigest(digest),
    instance ?? null,
    lastSeen ?? null,
    reason?.slice(0, LONGEST_REASON) ?? null,
    nextKeyId === undefined ? null : compressDigest(nextKeyId),
    keyedAt ?? null,
    force ?? null,
    unrequested ?? null,
  ]);
}

/** Fields that most members do not have are last, so trailing nulls are dropped. */
const trimNulls = (packed: JournalValue[]) => packed.slice(0, packed.findLastIndex((each) => each !== null) + 1);

function unpackMember(packed: PackedMember, places: readonly PackedAddress[]): LedgerMember {
  const [place, service, keyId, state, since, end = null, revision = null, digest = null, ...rest] = packed;
  const [instance = null, lastSeen = null, reason = null, nextKeyId = null, keyedAt = null, ...last] = rest;
  const [force = null, unrequested = null] = last;
  const [clusterId, endpoint, verify, guarded, kind] = places[place] ?? (['', '', true, true, 'oscar'] as const);
  return {
    clusterId,
    service,
    endpoint,
    verify,
    guarded,
    kind,
    state,
    since,
    keyId: expandDigest(keyId),
    ...(end !== null && { end }),
    ...(revision !== null && { revision }),
    ...(digest !== null && { digest: expandDigest(digest) }),
    ...(instance !== null && { instance }),
    ...(lastSeen !== null && { lastSeen }),
    ...(reason !== null && { reason }),
    ...(nextKeyId !== null && { nextKeyId: expandDigest(nextKeyId) }),
    ...(keyedAt !== null && { keyedAt }),
    ...(force !== null && { force }),
    ...(unrequested !== null && { unrequested }),
  };
}

/** A hexadecimal digest is half as long again as one in base64. Other text is not changed. */
const compressDigest = (text: string) =>
  /^[0-9a-f]{64}$/.test(text) ? `~${Buffer.from(text, 'hex').toString('base64url')}` : text;

const expandDigest = (text: string) =>
  text.startsWith('~') ? Buffer.from(text.slice(1), 'base64url').toString('hex') : text;

function findCoordinatorRole(record: ServiceRecord | undefined, uid: string) {
  const role = record?.service.federation;
  return role?.role === 'coordinator' && role.uid === uid ? role : undefined;
}

/**
 * Copies the commit from the ledger to the service, which accepts jobs from then on. Returns undefined if the service no
 * longer exists.
 */
export async function markCommitted(
  { service: name, uid }: Ledger,
  { services }: { readonly services: ServiceStore },
): Promise<ServiceRecord | undefined> {
  for (;;) {
    const known = await services.get(name);
    // The members are ended if the service does not exist, so a cached absence is confirmed with a fresh read.
    const current = findCoordinatorRole(known, uid) ? known : await services.getFresh(name);
    const role = findCoordinatorRole(current, uid);
    if (!current || !role) return undefined;
    if (role.committed) return current;
    try {
      const federation = { ...role, committed: true };
      return await services.replace({ ...current.service, federation }, current.version);
    } catch (error) {
      if (!isWriteConflict(error)) throw error;
    }
  }
}
