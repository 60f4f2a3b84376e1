import type { Secret } from '../../base/secret.ts';
import { loadSecrets, ownerOfSecrets } from '../../catalog/index.ts';
import type { Service } from '../../service/index.ts';
import type { Replica } from '../../service/schema.ts';
import type { LedgerEntry } from '../ledger.ts';
import { Ledgers } from '../ledger-store.ts';
import type { WorkerOrder } from '../peer/peer.ts';
import { align, dismiss, type Wanted } from './align.ts';
import type { Coordination } from './coordination.ts';
import { placeOf } from './member-address.ts';
import { dropKeys, keepKeys, keyIdOf, readKey } from './member-keys.ts';
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
 * is at work on this ledger.
 */
export async function prepare(
  entry: LedgerEntry,
  service: Service,
  { renew }: { readonly renew: boolean },
  deps: Coordination,
): Promise<Prepared | undefined> {
  const ledgers = new Ledgers(deps);
  const known = await keysOf(entry, deps);
  const added = new Map<string, Secret>();
  const ledger = align(entry.ledger, {
    revision: service.federation?.revision ?? 0,
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
  const written = ledger === entry.ledger ? entry : await ledgers.advance(entry, ledger);
  await keepKeys(added, deps);
  const dismissed = dismiss(ledger);
  const isSame = ledger.members.every(({ state }) => state !== 'leaving');
  const held = isSame ? await ledgers.claim(written) : await ledgers.advance(written, dismissed);
  if (!held) {
    await dropKeys(added.keys(), deps);
    return undefined;
  }
  const secrets = await loadSecrets(ownerOfSecrets(service), deps);
  const orders = ordersOf(service, secrets.environment, held.ledger, new Map([...known, ...added]), deps);
  return { entry: held, service, credentials: secrets.credentials, orders };
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
    const address = deps.resolve(cluster_id, definition.clusters);
    const found = 'problem' in address ? address : { place: placeOf(address) };
    return { clusterId: cluster_id, service: service_name, ...found };
  });
}

/** Members of type `endpoint` are any URL: nothing is deployed there (F18). */
export const deployedOf = (members: readonly Replica[] | undefined): Replica[] =>
  (members ?? []).filter(({ type }) => type === 'oscar');
