import { type Admin, may, type User } from '../../identity/index.ts';
import type { Cursor, Page } from '../../lib/version.ts';
import type { JobRecord, JobState, NewJob } from '../../model/job/index.ts';
import { type JobQuery, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { findService } from '../../services/index.ts';
import { JobError, jobNotFound } from '../errors.ts';
import type { Jobs } from '../jobs.ts';

/** Finds a job that this principal may see. A hidden job gives the same error as a missing one. */
export async function findJob(
  principal: Admin | User,
  service: string,
  id: string,
  jobs: Pick<Jobs, 'services' | 'store'>,
): Promise<JobRecord> {
  const found = await findService(principal, 'read-jobs', service, jobs);
  const record = await jobs.store.get({ service, id });
  if (!record || record.serviceUid !== found.service.uid || !mayReadJob(principal, record, found)) {
    throw jobNotFound(service, id);
  }
  return record;
}

export interface JobListing {
  readonly states?: readonly JobState[];
  readonly triggers?: readonly NewJob['trigger'][];
  readonly page?: string;
  readonly limit: number;
}

/** The jobs of a service that this principal may see, newest first. */
export async function listJobs(
  principal: Admin | User,
  service: string,
  { page, ...filter }: JobListing,
  jobs: Pick<Jobs, 'services' | 'store'>,
): Promise<Page<JobRecord>> {
  await findService(principal, 'read-jobs', service, jobs);
  const concerning = principal.kind === 'user' && { concerning: principal.uid };
  return listPage({ service, ...filter, ...concerning, ...(page && { cursor: page as Cursor }) }, jobs);
}

interface AllJobsListing extends JobListing {
  readonly service?: string;
  /** Only jobs that this user caused, or that ran with this user's rights. */
  readonly user?: string;
}

/** Reads for one page. More: a caller who may no longer see most jobs waits longer. Fewer: such a caller gets short pages. */
const MOST_READS = 5;

/** The jobs of all services that this principal may see, newest first. A page may be shorter than the limit. */
export async function listAllJobs(
  principal: Admin | User,
  { page, limit, user, ...filter }: AllJobsListing,
  jobs: Pick<Jobs, 'services' | 'store'>,
): Promise<Page<JobRecord>> {
  if (principal.kind === 'user' && user !== undefined && user !== principal.uid) return { items: [] };
  const concerning = principal.kind === 'user' ? principal.uid : user;
  const items: JobRecord[] = [];
  let next = page as Cursor | undefined;
  for (let reads = 1; ; reads++) {
    const query = { ...filter, limit: limit - items.length, ...(concerning !== undefined && { concerning }) };
    const found = await listPage({ ...query, ...(next && { cursor: next }) }, jobs);
    items.push(...(await visibleJobs(principal, found.items, jobs)));
    next = found.next;
    if (next === undefined) return { items };
    if (items.length === limit || reads === MOST_READS) return { items, next };
  }
}

/** Those of the jobs whose service still exists and lets this principal see them. */
async function visibleJobs(
  principal: Admin | User,
  records: readonly JobRecord[],
  { services }: Pick<Jobs, 'services'>,
): Promise<JobRecord[]> {
  const names = [...new Set(records.map(({ service }) => service))];
  const found = new Map(await Promise.all(names.map(async (name) => [name, await services.get(name)] as const)));
  return records.filter((record) => {
    const service = found.get(record.service);
    return service?.service.uid === record.serviceUid && mayReadJob(principal, record, service);
  });
}

async function listPage(query: JobQuery, { store }: Pick<Jobs, 'store'>): Promise<Page<JobRecord>> {
  try {
    return await store.list(query);
  } catch (error) {
    if (!(error instanceof StoreError) || error.code !== 'expired') throw error;
    throw new JobError(
      'bad-page',
      'this page is not known: take next_page from the page before, or list from the start',
    );
  }
}

/** Users see the jobs that they caused, and jobs that ran with their rights (docs/go-manager.md#jobs-and-logs). */
export function mayReadJob(principal: Admin | User, record: JobRecord, { service }: ServiceRecord): boolean {
  const decision = may(principal, 'read-jobs', service);
  if (decision === 'yes') return true;
  if (decision !== 'own' || principal.kind !== 'user') return false;
  return record.invoker === principal.uid || record.principal === principal.uid;
}
