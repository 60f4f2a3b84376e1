import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor } from '../../lib/version.ts';
import { CLUSTER_ADMIN, type Service } from '../../model/service/index.ts';
import type { ServiceStore, Standby, StandbyRequest } from '../../ports/index.ts';
import { serviceTraits } from '../attempt/prepare.ts';
import { serviceDemand } from '../jobs.ts';

/** Pause after the services could not be read. */
const RETRY_MS = 2_000;

/** Standby pods of one service. A wrong number in a definition must not fill the cluster. */
const MAX_STANDBY = 100;

/** The standby pods that a service asks for, and its owner. */
interface StandbyWish {
  readonly owner: string;
  readonly order: StandbyRequest;
}

/**
 * Keeps standby pods for the services that ask for them (`synchronous.min_scale`), until the signal aborts; for all services
 * of one user together at most `perOwner`. Only the leader calls this. It never rejects.
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
      // Most services ask for none, now and before.
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
 * Cuts the requests of each owner to `perOwner` pods. The services of an owner get pods in turns, ordered by name, so that
 * every manager computes the same result and no service has many pods while another has none.
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

/** The standby pods for a service; undefined if it asks for none, or is a worker, which cannot be called here. */
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
