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
 * What the coordinator knows about its federation, in one entry of the journal (`federation/<uid>`): ids, addresses, digests
 * and states, never definitions or secrets. Whoever changes it holds the version that it read, so that there is one writer at
 * a time, and whoever comes after a crash reads what was begun.
 */
export interface Ledger {
  readonly uid: string;
  /** Of the service at the coordinator. */
  readonly service: string;
  readonly serviceUid: string;
  /**
   * `creating`: without `committed` all of it is undone. `active`: members are brought to the revision. `ending`: the service
   * is gone, the members have to be told.
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
  /** SHA-256 of the member key, which is in the room `member` under this id. */
  readonly keyId: string;
  /** Of the key that is to follow it: the member may have taken it up already. */
  readonly nextKeyId?: string;
  /** When the member took up its key. */
  readonly keyedAt?: number;
  /**
   * `wanted`: to be made. `made`: it answered so, with this revision. `leaving`: gets no new work, and is ended when it has
   * none. `undoing`: to be ended at once. `conflict`: something else has its name. `left`: its owner ended it there.
   */
  readonly state: 'wanted' | 'made' | 'leaving' | 'undoing' | 'conflict' | 'left';
  /** No request that makes it was ever sent: nothing can be there that has to be ended. Written off before the first one is. */
  readonly unrequested?: boolean;
  /** How it is ended. */
  readonly end?: 'undo' | 'detach';
  /** It is ended at once, whatever work it has. */
  readonly force?: boolean;
  readonly revision?: number;
  readonly digest?: string;
  readonly instance?: string;
  /** When it last answered, and why it did not since. */
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

/** All keys by which the member may know this federation. */
export const listKeyIds = ({ keyId, nextKeyId }: Pick<LedgerMember, 'keyId' | 'nextKeyId'>): string[] =>
  nextKeyId === undefined ? [keyId] : [keyId, nextKeyId];

const PREFIX = 'federation/';
const journalKey = (uid: string) => `${PREFIX}${uid}`;

/** The ledgers in the journal. Every write is a compare-and-swap: who was overtaken hears `conflict`. */
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

  /** Takes it to work on it; undefined when somebody else was faster. */
  async claim({ ledger, version }: LedgerEntry): Promise<LedgerEntry | undefined> {
    const claimed = await this.#journal.claim(journalKey(ledger.uid), version);
    return claimed === 'busy' ? undefined : { ledger, version: claimed };
  }

  async finish({ ledger, version }: LedgerEntry): Promise<void> {
    await this.#journal.finish(journalKey(ledger.uid), version);
  }

  /**
   * Writes what follows from whatever the ledger is by now, however many others write. Nothing is written when it follows
   * that nothing changes. Undefined when the ledger is gone.
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

/** Did somebody else write first? */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'conflict' || error.code === 'absent');
}

function toLedgerEntry({ key, state, version }: JournalEntry): LedgerEntry {
  return { ledger: unpackLedger(key.slice(PREFIX.length), state), version };
}

/**
 * A ledger as an entry of the journal holds it. An entry has 64 KiB and a federation may have 100 members, and as many that
 * are being ended: so a member is a list without the names of its fields, digests are in base64, and the address of a
 * cluster is there once. Where that is still too much, it holds only what the federation cannot do without.
 */
export function packLedger(ledger: Ledger): JournalState {
  const whole = packMembers(ledger, (member) => member);
  return sizeOf(whole) <= JOURNAL_STATE_BYTES ? whole : packMembers(ledger, compactMember);
}

/** The least that an entry for this ledger takes. */
export const packedSize = (ledger: Ledger): number => sizeOf(packMembers(ledger, compactMember));

const sizeOf = (state: JournalState) => Buffer.byteLength(JSON.stringify(state));

/** That there is a reason says that a member is away, so some of it stays. */
const COMPACT_REASON = 16;

/** What a member has to be brought up to date, or ended, by. */
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
  untold?: boolean | null,
];

/** A sentence, with what a manager written in Go answered. Longer: of fewer members there is room for all of it. */
const LONGEST_REASON = 240;

function packMember(member: LedgerMember, place: number): JournalValue[] {
  const { service, keyId, state, since, end, revision, digest, instance, lastSeen, reason } = member;
  const { nextKeyId, keyedAt, force, unrequested: untold } = member;
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
    untold ?? null,
  ]);
}

/** What most members have not stands last, and need not be there. */
const trimNulls = (packed: JournalValue[]) => packed.slice(0, packed.findLastIndex((each) => each !== null) + 1);

function unpackMember(packed: PackedMember, places: readonly PackedAddress[]): LedgerMember {
  const [place, service, keyId, state, since, end = null, revision = null, digest = null, ...rest] = packed;
  const [instance = null, lastSeen = null, reason = null, nextKeyId = null, keyedAt = null, ...last] = rest;
  const [force = null, untold = null] = last;
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
    ...(untold !== null && { unrequested: untold }),
  };
}

/** A digest in hexadecimal is half as long again as in base64; anything else stays as it is. */
const compressDigest = (text: string) =>
  /^[0-9a-f]{64}$/.test(text) ? `~${Buffer.from(text, 'hex').toString('base64url')}` : text;

const expandDigest = (text: string) =>
  text.startsWith('~') ? Buffer.from(text.slice(1), 'base64url').toString('hex') : text;

function findCoordinatorRole(record: ServiceRecord | undefined, uid: string) {
  const role = record?.service.federation;
  return role?.role === 'coordinator' && role.uid === uid ? role : undefined;
}

/**
 * Says in the service what its ledger says already: the federation is made, and takes work. Undefined when there is no
 * such service any more.
 */
export async function markCommitted(
  { service: name, uid }: Ledger,
  { services }: { readonly services: ServiceStore },
): Promise<ServiceRecord | undefined> {
  for (;;) {
    const known = await services.get(name);
    // Its members are ended if it is not there: that is not said by what is only known here.
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
