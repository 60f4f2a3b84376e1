import type { Principal } from '../../identity/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { fileAtOrigin, removeOriginStore, saveOriginStore, type UpstreamOrigins } from '../attempt/store-access.ts';
import { eventTooLarge, JobError } from '../errors.ts';
import { readEvent } from '../event.ts';
import type { Jobs } from '../jobs.ts';
import { acceptJob } from './submit.ts';

/**
 * What a manager written in Go says about a job that it delegates, besides the event
 * (docs/go-manager.md#federation-and-delegation).
 */
export interface Delegated {
  /** What the job is called there, and is to be called here. */
  readonly id: string;
  /** The cluster that it says to be; empty if it does not say. */
  readonly from: string;
  /** The access token that it came with. */
  readonly bearer?: Secret;
}

/** Names of jobs stand in paths, in names of pods and in their labels. */
const LEGAL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Ends with a UUID of version 5. Such ids follow from something, as those of storage events do: whoever could give one to a
 * job would keep the job that it belongs to from ever being made. Managers written in Go make random ones.
 */
const OURS = /-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Accepts a job that a manager of another kind delegates, under the id that it has there. The same from the same caller
 * again is the same job: an answer that was lost must not make the other side run it elsewhere as well (F13). If the operator
 * knows that manager, the files of the job are in its store. The caller has checked that the principal may invoke the service.
 */
export async function submitDelegated(
  principal: Principal,
  { service }: ServiceRecord,
  event: Uint8Array,
  { id, from, bearer }: Delegated,
  jobs: Jobs,
  origins?: UpstreamOrigins,
): Promise<JobKey> {
  if (event.length > jobs.maxEventBytes) throw eventTooLarge(jobs.maxEventBytes);
  if (!LEGAL.test(id) || OURS.test(id)) throw notLegal(id);
  const byToken = principal.kind === 'service-token';
  const invoker = principal.kind === 'user' ? principal.uid : '';
  const caller = { principal: invoker || service.owner, invoker, byToken };
  const arrival = { id, ...caller, trigger: 'job', delegatedFrom: from } as const;
  const job = { ...arrival, service: service.definition.name };
  const store = (await jobs.store.get(job)) ? undefined : await origins?.storeOf(from, byToken ? undefined : bearer);
  if (store && origins) {
    const file = service.definition.file_stage_in ? undefined : fileAtOrigin(readEvent(event).file, from);
    if (file) await origins.proveReadable(file, store);
    await saveOriginStore(job, store, jobs.secrets);
  }
  const key = await acceptJob(service, arrival, event, jobs).catch(async (error: unknown) => {
    // It may have been kept all the same, and then needs them.
    if (store && !(await jobs.store.get(job))) await removeOriginStore(job, jobs.secrets);
    throw error;
  });

  const [kept, keptEvent] = await Promise.all([jobs.store.get(key), jobs.store.event(key)]);
  const isIt = kept && keptEvent && kept.serviceUid === service.uid && isFrom(kept, caller);
  if (isIt && Buffer.compare(keptEvent, event) === 0) return key;
  if (store && kept?.invoker !== invoker) await removeOriginStore(job, jobs.secrets);
  const why = `there is another job "${id}" of "${service.definition.name}" already`;
  throw new JobError('job-id-taken', `${why}: give each job an id of its own`);
}

/** One that entered here, or was given away from here, comes back only in a circle. */
function isFrom(kept: JobRecord, { invoker, byToken }: Pick<JobRecord, 'invoker' | 'byToken'>): boolean {
  return kept.delegatedFrom !== undefined && kept.invoker === invoker && kept.byToken === byToken;
}

const notLegal = (id: string) =>
  new JobError(
    'invalid-job-id',
    `X-Delegated-Job-ID: ${JSON.stringify(id.slice(0, 80))} cannot be the id of a job. Give it up to 63 small letters, ` +
      'digits and hyphens, a letter or digit at both ends, and no UUID of version 5 at its end',
  );
