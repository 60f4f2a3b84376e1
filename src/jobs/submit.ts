import { randomUUID } from 'node:crypto';
import type { JobKey, ServiceRecord } from '../cluster/index.ts';
import type { Principal } from '../identity/index.ts';
import { jobName } from '../storage/index.ts';
import { acceptJob } from './accept.ts';
import { eventTooLarge } from './errors.ts';
import { eventJob } from './event-job.ts';
import type { Jobs } from './jobs.ts';

/**
 * Accepts a job that somebody asked for over HTTP: it is on the disk before this resolves. The caller has checked that the
 * principal may invoke the service.
 */
export async function submitJob(
  principal: Principal,
  { service }: ServiceRecord,
  event: Uint8Array,
  trigger: 'job' | 'run',
  jobs: Jobs,
): Promise<JobKey> {
  if (event.length > jobs.maxEventBytes) throw eventTooLarge(jobs.maxEventBytes);
  const byToken = principal.kind === 'service-token';
  // A store that was set up the old way sends its events here, with the token, and again if it gets no answer.
  const known = byToken && trigger === 'job' ? eventJob(event, service) : undefined;
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
