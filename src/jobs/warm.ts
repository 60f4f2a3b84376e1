import { setTimeout as pause } from 'node:timers/promises';
import type { Cursor, ServiceStore, Standby, StandbyOrder } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { serviceTraits } from './attempt-parts.ts';
import { demandOf } from './demand.ts';

/** After the services could not be read. */
const RETRY_MS = 2_000;

/** Of one service: a number too many in a definition is not to fill a cluster. */
const MOST_READY = 100;

/**
 * Keeps places ready for the calls of the services that ask for it (`synchronous.min_scale`), until the signal. Only
 * whoever leads does. Never fails.
 */
export async function keepReady(
  services: Pick<ServiceStore, 'list' | 'get' | 'watch'>,
  standby: Pick<Standby, 'keep'>,
  report: (problem: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      await follow(services, standby, signal);
    } catch (problem) {
      if (!signal.aborted) report(problem);
    }
    await pause(RETRY_MS, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

async function follow(
  services: Pick<ServiceStore, 'list' | 'get' | 'watch'>,
  standby: Pick<Standby, 'keep'>,
  signal: AbortSignal,
): Promise<void> {
  const changes = services.watch(signal);
  let orders = await allOrders(services);
  if (!signal.aborted) standby.keep([...orders.values()]);
  for await (const change of changes) {
    if (signal.aborted) return;
    if (change.kind === 'resync') orders = await allOrders(services);
    else {
      const found = change.kind === 'gone' ? undefined : await services.get(change.name);
      const order = found && orderOf(found.service);
      // Most services want none, and did not before.
      if (!order && !orders.has(change.name)) continue;
      if (order) orders.set(change.name, order);
      else orders.delete(change.name);
    }
    if (!signal.aborted) standby.keep([...orders.values()]);
  }
}

async function allOrders(services: Pick<ServiceStore, 'list'>): Promise<Map<string, StandbyOrder>> {
  const orders = new Map<string, StandbyOrder>();
  let cursor: Cursor | undefined;
  do {
    const page = await services.list({ ...(cursor !== undefined && { cursor }) });
    for (const { service } of page.items) {
      const order = orderOf(service);
      if (order) orders.set(order.service, order);
    }
    cursor = page.next;
  } while (cursor !== undefined);
  return orders;
}

/** What is to be ready for a service; undefined for one that wants nothing, or cannot be called here. */
export function orderOf(service: Service): StandbyOrder | undefined {
  const { definition, federation } = service;
  const { min_scale, max_scale } = definition.synchronous;
  if (min_scale === 0 || federation?.role === 'worker') return undefined;
  return {
    service: definition.name,
    count: Math.min(min_scale, max_scale || min_scale, MOST_READY),
    image: definition.image,
    demand: demandOf(definition),
    traits: serviceTraits(service),
  };
}
