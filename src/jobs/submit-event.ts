import { readsBucket } from '../cluster/index.ts';
import { CLUSTER_ADMIN, type Service } from '../service/index.ts';
import type { StorageEvent } from '../storage/index.ts';
import { acceptJob } from './accept.ts';
import { isInput, jobOfEvent } from './event-job.ts';
import type { Jobs } from './jobs.ts';

/**
 * Accepts a job of every service that waits for this object, on the disk before it resolves. The event comes from a store
 * that has proved to be ours: the jobs have the rights of the services' owners. Again: nothing happens. Resolves to how
 * many services there are.
 */
export async function submitEvent(
  event: StorageEvent,
  json: Uint8Array,
  jobs: Pick<Jobs, 'store' | 'dispatcher' | 'now' | 'place' | 'services' | 'storeAccount'>,
): Promise<number> {
  const services = await servicesOf(event, jobs);
  await Promise.all(services.map((service) => acceptEvent(event, json, service, jobs)));
  return services.length;
}

/** Accepts the job of one service for this object. */
export async function acceptEvent(
  event: StorageEvent,
  json: Uint8Array,
  service: Service,
  jobs: Pick<Jobs, 'store' | 'dispatcher' | 'now' | 'place' | 'storeAccount'>,
): Promise<void> {
  const arrival = {
    ...jobOfEvent(event, service),
    principal: service.owner,
    invoker: event.principal === jobs.storeAccount ? CLUSTER_ADMIN : (event.principal ?? ''),
    trigger: 'storage',
    byToken: false,
  } as const;
  await acceptJob(service, arrival, json, jobs);
}

/** The store was told to report it for somebody. One that was made just now, at another manager, may not be known here yet. */
async function servicesOf(event: StorageEvent, jobs: Pick<Jobs, 'services'>): Promise<Service[]> {
  const known = await waitingFor(event, jobs, false);
  return known.length > 0 ? known : waitingFor(event, jobs, true);
}

async function waitingFor(
  event: StorageEvent,
  { services }: Pick<Jobs, 'services'>,
  fresh: boolean,
): Promise<Service[]> {
  const query = { anyOf: [readsBucket(event.bucket)] };
  const found: Service[] = [];
  let page = await services.list({ ...query, fresh });
  for (;;) {
    for (const { service } of page.items) if (isInput(event, service)) found.push(service);
    if (page.next === undefined) return found;
    page = await services.list({ ...query, cursor: page.next });
  }
}
