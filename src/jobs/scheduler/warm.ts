import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../lib/version.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import type { ServiceStore, Standby, StandbyRequest } from '../../ports/index.ts';
import { serviceTraits } from '../attempt/prepare.ts';
import { serviceDemand } from '../demand.ts';

/** After the services could not be read. */
const RETRY_MS = 2_000;

/** Of one service: a number too many in a definition is not to fill a cluster. */
const MAX_STANDBY = 100;

/** What is wanted for a service, and whose it is. */
interface StandbyWish {
  readonly owner: string;
  readonly order: StandbyRequest;
}

/**
 * Keeps places ready for the calls of the services that ask for it (`synchronous.min_scale`), until the signal; for
 * those of one user together no more than `perOwner`. Only whoever leads does. Never fails.
 */
export async function maintainStandby(
  services: Pick<ServiceStore, 'list' | 'get' | 'watch'>,
  standby: Pick<Standby, 'setRequests'>,
  perOwner: number,
  report: (problem: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const keep = (wishes: ReadonlyMap<string, StandbyWish>) => {
    if (!signal.aborted) standby.setRequests(limitPerOwner([...wishes.values()], perOwner));
  };
  while (!signal.aborted) {
    try {
      await follow(services, keep, signal);
    } catch (problem) {
      if (!signal.aborted) report(problem);
    }
    await pause(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

async function follow(
  services: Pick<ServiceStore, 'list' | 'get' | 'watch'>,
  keep: (wishes: ReadonlyMap<string, StandbyWish>) => void,
  signal: AbortSignal,
): Promise<void> {
  const changes = services.watch(signal);
  let wishes = await listWishes(services);
  keep(wishes);
  for await (const change of changes) {
    if (signal.aborted) return;
    if (change.kind === 'resync') wishes = await listWishes(services);
    else {
      const found = change.kind === 'gone' ? undefined : await services.get(change.name);
      const order = found && standbyRequestFor(found.service);
      // Most services want none, and did not before.
      if (!order && !wishes.has(change.name)) continue;
      if (order) wishes.set(change.name, { order, owner: found.service.owner });
      else wishes.delete(change.name);
    }
    keep(wishes);
  }
}

async function listWishes(services: Pick<ServiceStore, 'list'>): Promise<Map<string, StandbyWish>> {
  const wishes = new Map<string, StandbyWish>();
  let cursor: Cursor | undefined;
  do {
    const page = await services.list({ ...(cursor !== undefined && { cursor }) });
    for (const { service } of page.items) {
      const order = standbyRequestFor(service);
      if (order) wishes.set(order.service, { order, owner: service.owner });
    }
    cursor = page.next;
  } while (cursor !== undefined);
  return wishes;
}

/**
 * The same orders, less what one user wants beyond `perOwner`. Their services get one after the other, by name and in turns,
 * so that every manager says the same and no service has many while another has none.
 */
export function limitPerOwner(wishes: readonly StandbyWish[], perOwner: number): StandbyRequest[] {
  const byOwner = Map.groupBy(wishes, ({ owner }) => owner);
  return [...byOwner].flatMap(([owner, theirs]) => {
    const orders = theirs.map(({ order }) => order);
    return owner === CLUSTER_ADMIN ? orders : shareRoundRobin(orders, perOwner);
  });
}

function shareRoundRobin(orders: readonly StandbyRequest[], most: number): StandbyRequest[] {
  const sorted = orders.toSorted((a, b) => (a.service < b.service ? -1 : 1));
  const counts = sorted.map(() => 0);
  let left = most;
  for (let turn = 0; left > 0 && sorted.some(({ count }) => count > turn); turn++) {
    for (const [index, { count }] of sorted.entries()) {
      if (left === 0 || count <= turn) continue;
      counts[index] = turn + 1;
      left--;
    }
  }
  return sorted.map((order, index) => ({ ...order, count: counts[index] ?? 0 })).filter(({ count }) => count > 0);
}

/** What is to be ready for a service; undefined for one that wants nothing, or cannot be called here. */
export function standbyRequestFor(service: Service): StandbyRequest | undefined {
  const { definition, federation } = service;
  const { min_scale, max_scale } = definition.synchronous;
  if (min_scale === 0 || federation?.role === 'worker') return undefined;
  return {
    service: definition.name,
    count: Math.min(min_scale, max_scale || min_scale, MAX_STANDBY),
    image: definition.image,
    demand: serviceDemand(definition),
    traits: serviceTraits(service),
  };
}
