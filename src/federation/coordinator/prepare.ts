import type { Secret } from '../../base/secret.ts';
import { loadSecrets, ownerOfSecrets } from '../../catalog/index.ts';
import type { Service } from '../../service/index.ts';
import type { Replica } from '../../service/schema.ts';
import { keyIdsOf, type LedgerEntry, type LedgerMember } from '../ledger.ts';
import { isOvertaken, Ledgers } from '../ledger-store.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { keyIdOf } from '../peer/signature.ts';
import { align, dismiss, type Wanted } from './align.ts';
import type { Coordination } from './coordination.ts';
import { placeOf } from './member/member-address.ts';
import { dropKeys, keepKeys, readKey } from './member/member-keys.ts';
import { isCurrent, ordersOf } from './orders.ts';
import { workingMembers } from './working.ts';

export interface Prepared {
  readonly entry: LedgerEntry;
  readonly service: Service;
  /** Everything else that its definition keeps secret, for asking other clusters. */
  readonly credentials: Readonly<Record<string, Secret>>;
  readonly orders: ReadonlyMap<string, WorkerOrder>;
  /** Keys that are to follow those of members, by the ids of the latter. */
  readonly next: ReadonlyMap<string, Secret>;
}

export interface Preparing {
  /** Is somebody there who can make a member anew under another key? */
  readonly renew: boolean;
  readonly rekey?: (member: LedgerMember) => boolean;
}

/**
 * Writes down what the members of a service are to be, before any of them is told. The ledger names a key first, then it is
 * kept, and a last compare-and-swap makes sure that nobody has taken it for lost in between. Undefined when somebody else
 * is at work on this ledger, or has a later definition.
 */
export async function prepare(
  entry: LedgerEntry,
  service: Service,
  { renew, rekey }: Preparing,
  deps: Coordination,
): Promise<Prepared | undefined> {
  const { revision = 0 } = service.federation ?? {};
  if (revision < entry.ledger.revision) return undefined;
  const known = await keysOf(entry, deps);
  const added = new Map<string, Secret>();
  const ledger = align(entry.ledger, {
    revision,
    wanted: wantedBy(service, deps),
    lost: new Set(entry.ledger.members.flatMap(keyIdsOf).filter((id) => !known.has(id))),
    renew,
    ...(rekey && { rekey }),
    newKeyId: () => {
      const key = deps.newKey();
      added.set(keyIdOf(key), key);
      return keyIdOf(key);
    },
    now: deps.now(),
  });
  const written = ledger === entry.ledger ? entry : await new Ledgers(deps).advance(entry, ledger);
  await keepKeys(added, deps);
  const held = await hold(written, deps);
  if (!held) {
    await dropUnnamed(ledger.uid, added.keys(), deps);
    return undefined;
  }
  const secrets = await loadSecrets(ownerOfSecrets(service), deps);
  const keys = new Map([...known, ...added]);
  const orders = ordersOf(service, secrets.environment, held.ledger, keys, deps);
  const next = held.ledger.members.flatMap(({ keyId, nextKeyId = '' }) => {
    const key = keys.get(nextKeyId);
    return key ? [[keyId, key] as const] : [];
  });
  return { entry: held, service, credentials: secrets.credentials, orders, next: new Map(next) };
}

/** From here on members without work are ended; of all who come this far with one version, one goes on. */
async function hold(entry: LedgerEntry, deps: Coordination): Promise<LedgerEntry | undefined> {
  const ledgers = new Ledgers(deps);
  const working = await workingMembers(entry.ledger, deps);
  const dismissed = dismiss(entry.ledger, (member) => working.has(member));
  if (dismissed === entry.ledger) return ledgers.claim(entry);
  try {
    return await ledgers.advance(entry, dismissed);
  } catch (error) {
    if (isOvertaken(error)) return undefined;
    throw error;
  }
}

/** Whoever overtook us may use the keys that the ledger names; nobody can use others. */
async function dropUnnamed(uid: string, keyIds: Iterable<string>, deps: Coordination): Promise<void> {
  const current = await new Ledgers(deps).read(uid);
  const named = new Set(current?.ledger.members.flatMap(keyIdsOf));
  await dropKeys(
    [...keyIds].filter((id) => !named.has(id)),
    deps,
  );
}

async function keysOf({ ledger }: LedgerEntry, deps: Coordination): Promise<Map<string, Secret>> {
  const ids = ledger.members.filter(isCurrentOrLeaving).flatMap(keyIdsOf);
  const keys = await Promise.all(ids.map(async (id) => [id, await readKey(id, deps)] as const));
  return new Map(keys.flatMap(([id, key]) => (key ? [[id, key]] : [])));
}

const isCurrentOrLeaving = (member: LedgerEntry['ledger']['members'][number]) =>
  isCurrent(member) || member.state === 'leaving';

export function wantedBy({ definition }: Pick<Service, 'definition'>, deps: Pick<Coordination, 'resolve'>): Wanted[] {
  return deployedOf(definition.federation?.members).map(({ cluster_id, service_name }) => {
    const resolved = deps.resolve(cluster_id, definition.clusters);
    const found = 'problem' in resolved ? resolved : { place: placeOf(resolved.address) };
    return { clusterId: cluster_id, service: service_name, ...found };
  });
}

/** Members of type `endpoint` are any URL: nothing is deployed there (F18). */
export const deployedOf = (members: readonly Replica[] | undefined): Replica[] =>
  (members ?? []).filter(({ type }) => type === 'oscar');
