import { type Admin, may, type User } from '../../identity/index.ts';
import type { Cursor, Page } from '../../lib/version.ts';
import type { JobRecord, JobState, NewJob } from '../../model/job/index.ts';
import { type ServiceRecord, StoreError } from '../../ports/index.ts';
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
  try {
    return await jobs.store.list({
      service,
      ...filter,
      ...(principal.kind === 'user' && { concerning: principal.uid }),
      ...(page && { cursor: page as Cursor }),
    });
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
