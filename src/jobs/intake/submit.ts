import { randomUUID } from 'node:crypto';
import type { Principal } from '../../identity/index.ts';
import { accepted, type JobKey, jobName, type NewJob } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { eventTooLarge, JobError } from '../errors.ts';
import { jobForBytes } from '../event.ts';
import { type Jobs, type PlacementMode, serviceDemand } from '../jobs.ts';

/**
 * Accepts a job that was requested over HTTP. Its record is durable before this resolves. The calling route has checked that
 * the principal may invoke the service.
 */
export async function submitJob(
  principal: Principal,
  { service }: ServiceRecord,
  event: Uint8Array,
  trigger: 'job' | 'run',
  jobs: Jobs,
): Promise<JobKey> {
  if (event.length > jobs.maxEventBytes) throw eventTooLarge(jobs.maxEventBytes);
  const shortage = jobs.capacity.shortage?.();
  if (shortage !== undefined) throw new JobError('disk-full', `no new jobs are accepted: ${shortage}`);
  const byToken = principal.kind === 'service-token';
  // A store that is configured as for the Go manager sends its events here with the token, and repeats them if it gets no answer.
  const known = byToken && trigger === 'job' ? jobForBytes(event, service) : undefined;
  const uid = principal.kind === 'user' ? principal.uid : '';
  return acceptJob(
    service,
    {
      id: jobName(service.definition.name, randomUUID()),
      ...known,
      principal: uid || service.owner,
      invoker: uid,
      trigger,
      byToken,
    },
    event,
    jobs,
  );
}

/** The fields of a job that depend on how it arrived. */
type Arrival = Pick<
  NewJob,
  'id' | 'principal' | 'invoker' | 'trigger' | 'byToken' | 'object' | 'openedBy' | 'delegatedFrom'
>;

/** Stores a job of this service and queues it. A job with the same key that exists already is not changed. */
export async function acceptJob(
  service: Service,
  arrival: Arrival,
  event: Uint8Array,
  jobs: Pick<Jobs, 'store' | 'scheduler' | 'now' | 'place'>,
): Promise<JobKey> {
  const { definition, uid: serviceUid, owner } = service;
  const job: NewJob = {
    ...arrival,
    service: definition.name,
    serviceUid,
    owner,
    demand: serviceDemand(definition),
    acceptedAt: jobs.now(),
  };
  const { outcome, record } = await jobs.store.accept(job, accepted(job.acceptedAt, jobs.place), event);
  // A queued job that exists already may have been accepted by a request whose answer was lost.
  const waits = outcome === 'created' || record?.state === 'queued';
  if (waits) jobs.scheduler.enqueue(record ?? job, placementModeFor(service, job));
  return { service: job.service, id: job.id };
}

/**
 * Where a job of this service may run (docs/delegation.md#when). A synchronous call runs here if there is room. A job that
 * another cluster delegated here is not delegated again (F12). A job that entered at a worker is placed by the policy, and is
 * not queued here first.
 */
export function placementModeFor(
  { definition, federation: role }: Service,
  { trigger, taken, openedBy, delegatedFrom }: Pick<NewJob, 'trigger' | 'taken' | 'openedBy' | 'delegatedFrom'>,
): PlacementMode {
  if (role?.role !== 'coordinator' || taken || delegatedFrom !== undefined) return 'local';
  if (openedBy !== undefined) return 'any';
  const { topology = 'none', members = [], delegate_when } = definition.federation ?? {};
  if (members.length === 0 || topology.toLowerCase() === 'none') return 'local';
  return delegate_when === 'always' && trigger !== 'run' ? 'any' : 'overflow';
}
