import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { allSettled } from '../../lib/concurrency.ts';
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
 * writer at a time, and recovery after a crash reads what was begun. The members of a large federation are in pages, entries
 * of their own that never change: the ledger names its pages (decision 0065).
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
  /** The pages of its members. Empty if the members are in the entry itself. */
  readonly pages: readonly MemberPage[];
}

/** Some of the members, in a journal entry that is written once. */
interface MemberPage {
  readonly id: string;
  readonly members: readonly LedgerMember[];
}

export const memberId = ({ clusterId, service }: Pick<LedgerMember, 'clusterId' | 'service'>) =>
  `${clusterId}/${service}`;

/** The ids of all keys that the member may have. */
export const listKeyIds = ({ keyId, nextKeyId }: Pick<LedgerMember, 'keyId' | 'nextKeyId'>): string[] =>
  nextKeyId === undefined ? [keyId] : [keyId, nextKeyId];

const PREFIX = 'federation/';
const journalKey = (uid: string) => `${PREFIX}${uid}`;

const PAGE_PREFIX = 'ledger-members/';
const pageKey = (uid: string, page: string) => `${PAGE_PREFIX}${uid}/${page}`;

/** With a larger value, a change of one member writes more; with a smaller one, a ledger has more entries. */
const MEMBERS_PER_PAGE = 16;

/** A page with the largest members fits into an entry, with some room for the page's own fields. */
export const MAX_MEMBER_BYTES = Math.floor((JOURNAL_STATE_BYTES - 1024) / MEMBERS_PER_PAGE);

/**
 * After this time a page that no ledger names is removed. It is left by a manager that was killed while it wrote. A manager
 * that is paused for longer between a page and its ledger would lose the page; a larger value keeps unused pages longer.
 */
const UNUSED_PAGE_MS = 24 * 3_600_000;

/** Pages never change, so each manager reads a page once. The oldest are forgotten first. */
const CACHED_PAGES = 2_048;
const pageCaches = new WeakMap<Journal, Map<string, MemberPage>>();

/** The ledgers in the journal. Every write is a compare-and-swap; a writer that lost the race gets `conflict`. */
export class Ledgers {
  readonly #journal: Journal;
  readonly #cache: Map<string, MemberPage>;

  constructor({ journal }: { readonly journal: Journal }) {
    this.#journal = journal;
    this.#cache = pageCaches.get(journal) ?? new Map();
    pageCaches.set(journal, this.#cache);
  }

  async read(uid: string): Promise<LedgerEntry | undefined> {
    const entry = await this.#journal.read(journalKey(uid));
    return entry && this.#toLedgerEntry(entry);
  }

  async begin(ledger: Ledger): Promise<LedgerEntry> {
    return this.#write(ledger, [], async (state) => (await this.#journal.begin(journalKey(ledger.uid), state)).version);
  }

  async advance({ version, pages }: LedgerEntry, ledger: Ledger): Promise<LedgerEntry> {
    return this.#write(ledger, pages, (state) => this.#journal.advance(journalKey(ledger.uid), version, state));
  }

  /** Claims the ledger for a change; undefined if another writer was faster. */
  async claim(entry: LedgerEntry): Promise<LedgerEntry | undefined> {
    const claimed = await this.#journal.claim(journalKey(entry.ledger.uid), entry.version);
    return claimed === 'busy' ? undefined : { ...entry, version: claimed };
  }

  async finish({ ledger, version, pages }: LedgerEntry): Promise<void> {
    await this.#journal.finish(journalKey(ledger.uid), version);
    await this.#removePages(ledger.uid, pages);
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
    for await (const entry of this.#list(PREFIX)) {
      const read = await this.#toLedgerEntry(entry);
      if (read) yield read;
    }
  }

  /** Removes pages that no ledger names and that are too old to be part of a write that goes on. */
  async removeUnusedPages(now: number): Promise<void> {
    for await (const { key, state } of this.#list(PAGE_PREFIX)) {
      const [uid = '', id = ''] = key.slice(PAGE_PREFIX.length).split('/');
      if (now - Number(state['at']) < UNUSED_PAGE_MS) continue;
      const ledger = await this.#journal.read(journalKey(uid));
      if (!ledger || !listPageIds(ledger.state).includes(id)) await this.#removePages(uid, [{ id, members: [] }]);
    }
  }

  async *#list(prefix: string): AsyncGenerator<JournalEntry> {
    let page = await this.#journal.list(prefix);
    for (;;) {
      yield* page.items;
      if (page.next === undefined) return;
      page = await this.#journal.list(prefix, page.next);
    }
  }

  /**
   * Writes the pages that have changed, then the entry that names them: the entry decides. Then removes the pages that it
   * does not name any more. If the entry cannot be written, the new pages are removed.
   */
  async #write(
    ledger: Ledger,
    known: readonly MemberPage[],
    put: (state: JournalState) => Promise<Version>,
  ): Promise<LedgerEntry> {
    const whole = packLedger(ledger);
    if (sizeOf(whole) <= JOURNAL_STATE_BYTES) {
      const version = await put(whole);
      await this.#removePages(ledger.uid, known);
      return { ledger, version, pages: [] };
    }
    const { uid, members, ...head } = ledger;
    const pages = toPages(members, known);
    const added = pages.filter((page) => !known.includes(page));
    try {
      await allSettled(added.map((page) => this.#writePage(uid, page)));
      const version = await put({ ...head, pages: pages.map(({ id }) => id) });
      await this.#removePages(
        uid,
        known.filter((page) => !pages.includes(page)),
      );
      return { ledger, version, pages };
    } catch (error) {
      // It is certain that the entry does not name them only if another writer was first.
      if (isWriteConflict(error)) await this.#removePages(uid, added);
      throw error;
    }
  }

  async #writePage(uid: string, page: MemberPage): Promise<void> {
    await this.#journal.begin(pageKey(uid, page.id), { at: Date.now(), ...packMembers(page.members) });
    this.#keep(page);
  }

  /** A page that cannot be removed now is removed by {@link removeUnusedPages}. */
  async #removePages(uid: string, pages: readonly MemberPage[]): Promise<void> {
    await Promise.allSettled(
      pages.map(async ({ id }) => {
        this.#cache.delete(id);
        const entry = await this.#journal.read(pageKey(uid, id));
        if (entry) await this.#journal.finish(entry.key, entry.version);
      }),
    );
  }

  /** A page is missing if another writer has removed it, and then there is a newer entry, or none. */
  async #toLedgerEntry(given: JournalEntry): Promise<LedgerEntry | undefined> {
    const uid = given.key.slice(PREFIX.length);
    let entry: JournalEntry | undefined = given;
    while (entry) {
      const { state, version }: JournalEntry = entry;
      if (!('pages' in state)) return { ledger: unpackLedger(uid, state), version, pages: [] };
      const pages = await Promise.all(listPageIds(state).map((id) => this.#readPage(uid, id)));
      const found = pages.filter((page) => page !== undefined);
      if (found.length === pages.length) {
        const { pages: _, ...head } = state as unknown as Omit<Ledger, 'uid' | 'members'> & { pages: unknown };
        return { ledger: { uid, ...head, members: found.flatMap(({ members }) => members) }, version, pages: found };
      }
      const next = await this.#journal.read(given.key);
      if (next?.version === version) throw new Error(`pages of the ledger of federation ${uid} are missing`);
      entry = next;
    }
    return undefined;
  }

  async #readPage(uid: string, id: string): Promise<MemberPage | undefined> {
    const cached = this.#cache.get(id);
    if (cached) return cached;
    const entry = await this.#journal.read(pageKey(uid, id));
    if (!entry) return undefined;
    const page = { id, members: unpackMembers(entry.state) };
    this.#keep(page);
    return page;
  }

  #keep(page: MemberPage): void {
    this.#cache.set(page.id, page);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > CACHED_PAGES && oldest !== undefined) this.#cache.delete(oldest);
  }
}

const listPageIds = ({ pages }: JournalState): string[] => (Array.isArray(pages) ? pages.map(String) : []);

/** A page whose members have not changed is used again. */
function toPages(members: readonly LedgerMember[], known: readonly MemberPage[]): MemberPage[] {
  const pages: MemberPage[] = [];
  for (let start = 0; start < members.length; start += MEMBERS_PER_PAGE) {
    const page = { id: randomUUID(), members: members.slice(start, start + MEMBERS_PER_PAGE) };
    const before = known[pages.length];
    pages.push(before && isDeepStrictEqual(before.members, page.members) ? before : page);
  }
  return pages;
}

/** Whether another writer was first. */
export function isWriteConflict(error: unknown): boolean {
  return error instanceof StoreError && (error.code === 'conflict' || error.code === 'absent');
}

/**
 * Packs a ledger for the journal: a member is a list without field names, digests are in base64, and each cluster address is
 * stored once.
 */
export function packLedger({ uid: _, members, ...ledger }: Ledger): JournalState {
  return { ...ledger, ...packMembers(members) };
}

/** The size of a member in a page, without its neighbours. */
export const packedSize = (member: LedgerMember): number => sizeOf(packMembers([member]));

const sizeOf = (state: JournalState) => Buffer.byteLength(JSON.stringify(state));

function packMembers(members: readonly LedgerMember[]): JournalState {
  const addresses: JournalValue[][] = [];
  const indexes = new Map<string, number>();
  const addressIndex = ({ clusterId, endpoint, verify, guarded, kind }: LedgerMember) => {
    const place = [clusterId, endpoint, verify, guarded, kind];
    const known = JSON.stringify(place);
    if (!indexes.has(known)) indexes.set(known, addresses.push(place) - 1);
    return indexes.get(known) ?? 0;
  };
  const packed = members.map((member) => packMember(member, addressIndex(member)));
  return { places: addresses, members: packed };
}

export function unpackLedger(uid: string, state: JournalState): Ledger {
  const { places: _, members: __, ...ledger } = state as unknown as Omit<Ledger, 'uid'> & { places: unknown };
  return { uid, ...ledger, members: unpackMembers(state) };
}

function unpackMembers(state: JournalState): LedgerMember[] {
  const { places, members } = state as unknown as { places: PackedAddress[]; members: PackedMember[] };
  return members.map((member) => unpackMember(member, places));
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

/** Enough for a sentence with the answer of a Go manager. With a larger value fewer members fit into an entry. */
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
