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
 * What a Go manager sends with a job that it delegates, besides the event
 * (docs/go-manager.md#federation-and-delegation).
 */
export interface Delegated {
  /** The id of the job at its origin. It gets the same id here. */
  readonly id: string;
  /** The cluster id that the sender claims; empty if it names none. */
  readonly from: string;
  /** The access token of the request. */
  readonly bearer?: Secret;
}

/** Job ids are used in paths, in names of pods and in labels. */
const LEGAL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * Ids that end with a UUID of version 5 are derived, as those of storage events are. A caller that could choose such an id
 * could prevent the job of a storage event from ever being created. Go managers create random UUIDs.
 */
const OURS = /-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/**
 * Accepts a job that a Go manager delegates, under the id that it has there. The same request from the same caller is the
 * same job: if an answer was lost, the origin must not run the job on another cluster too (F13). If the operator has
 * registered that manager, the files of the job are in its store. The calling route has checked that the principal may
 * invoke the service.
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
    // If the job was stored despite the error, it needs these keys.
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

/** A job that entered at this cluster comes back as a delegated one only if managers delegate in a circle. */
function isFrom(kept: JobRecord, { invoker, byToken }: Pick<JobRecord, 'invoker' | 'byToken'>): boolean {
  return kept.delegatedFrom !== undefined && kept.invoker === invoker && kept.byToken === byToken;
}

const notLegal = (id: string) =>
  new JobError(
    'invalid-job-id',
    `X-Delegated-Job-ID: ${JSON.stringify(id.slice(0, 80))} cannot be the id of a job. Give it up to 63 small letters, ` +
      'digits and hyphens, a letter or digit at both ends, and no UUID of version 5 at its end',
  );
