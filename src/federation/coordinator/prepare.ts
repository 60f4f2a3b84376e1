import type { Secret } from '../../base/secret.ts';
import { loadSecrets, ownerOfSecrets } from '../../catalog/index.ts';
import type { Service } from '../../service/index.ts';
import type { Replica } from '../../service/schema.ts';
import type { LedgerEntry } from '../ledger.ts';
import { isOvertaken, Ledgers } from '../ledger-store.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { keyIdOf } from '../peer/signature.ts';
import { align, dismiss, type Wanted } from './align.ts';
import type { Coordination } from './coordination.ts';
import { placeOf } from './member/member-address.ts';
import { dropKeys, keepKeys, readKey } from './member/member-keys.ts';
import { isCurrent, ordersOf } from './orders.ts';

export interface Prepared {
  readonly entry: LedgerEntry;
  readonly service: Service;
  /** Everything else that its definition keeps secret, for asking other clusters. */
  readonly credentials: Readonly<Record<string, Secret>>;
  readonly orders: ReadonlyMap<string, WorkerOrder>;
}

/**
 * Writes down what the members of a service are to be, before any of them is told. The ledger names a key first, then it is
 * kept, and a last compare-and-swap makes sure that nobody has taken it for lost in between. Undefined when somebody else
 * is at work on this ledger, or has a later definition.
 */
export async function prepare(
  entry: LedgerEntry,
  service: Service,
  { renew }: { readonly renew: boolean },
  deps: Coordination,
): Promise<Prepared | undefined> {
  const { revision = 0 } = service.federation ?? {};
  if (revision < entry.ledger.revision) return undefined;
  const known = await keysOf(entry, deps);
  const added = new Map<string, Secret>();
  const ledger = align(entry.ledger, {
    revision,
    wanted: wantedBy(service, deps),
    lost: new Set(entry.ledger.members.map(({ keyId }) => keyId).filter((id) => !known.has(id))),
    renew,
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
  const orders = ordersOf(service, secrets.environment, held.ledger, new Map([...known, ...added]), deps);
  return { entry: held, service, credentials: secrets.credentials, orders };
}

/** From here on members without work are ended; of all who come this far with one version, one goes on. */
async function hold(entry: LedgerEntry, deps: Coordination): Promise<LedgerEntry | undefined> {
  const ledgers = new Ledgers(deps);
  if (entry.ledger.members.every(({ state }) => state !== 'leaving')) return ledgers.claim(entry);
  try {
    return await ledgers.advance(entry, dismiss(entry.ledger));
  } catch (error) {
    if (isOvertaken(error)) return undefined;
    throw error;
  }
}

/** Whoever overtook us may use the keys that the ledger names; nobody can use others. */
async function dropUnnamed(uid: string, keyIds: Iterable<string>, deps: Coordination): Promise<void> {
  const current = await new Ledgers(deps).read(uid);
  const named = new Set(current?.ledger.members.map(({ keyId }) => keyId));
  await dropKeys(
    [...keyIds].filter((id) => !named.has(id)),
    deps,
  );
}

async function keysOf({ ledger }: LedgerEntry, deps: Coordination): Promise<Map<string, Secret>> {
  const ids = ledger.members.filter(isCurrentOrLeaving).map(({ keyId }) => keyId);
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
