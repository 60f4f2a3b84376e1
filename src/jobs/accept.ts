import type { JobKey, NewJob } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { demandOf } from './demand.ts';
import type { Jobs } from './jobs.ts';
import { placingOf } from './placing.ts';
import { accepted } from './state.ts';

/** What the way it came says about a job. */
export type Arrival = Pick<
  NewJob,
  'id' | 'principal' | 'invoker' | 'trigger' | 'byToken' | 'object' | 'openedBy' | 'delegatedFrom'
>;

/** Keeps a job of this service and puts it in line. One that is there already stays what it is. */
export async function acceptJob(
  service: Service,
  arrival: Arrival,
  event: Uint8Array,
  jobs: Pick<Jobs, 'store' | 'dispatcher' | 'now' | 'place'>,
): Promise<JobKey> {
  const { definition, uid: serviceUid, owner } = service;
  const job: NewJob = {
    ...arrival,
    service: definition.name,
    serviceUid,
    owner,
    demand: demandOf(definition),
    acceptedAt: jobs.now(),
  };
  const { outcome, record } = await jobs.store.accept(job, accepted(job.acceptedAt, jobs.place), event);
  // One that is there and waits may have been accepted by a try whose answer was lost.
  const waits = outcome === 'created' || record?.state === 'queued';
  if (waits) jobs.dispatcher.enqueue(record ?? job, placingOf(service, job));
  return { service: job.service, id: job.id };
}
