import { type Admin, may, type User } from '../../identity/index.ts';
import { allSettled, Slots } from '../../lib/concurrency.ts';
import type { Cursor } from '../../lib/version.ts';
import { isFinal, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { findService } from '../../services/index.ts';
import { removeOriginStore } from '../attempt/store-access.ts';
import { JobError, jobNotFound } from '../errors.ts';
import type { Jobs } from '../jobs.ts';
import { findJob } from '../views/find.ts';

/** Ended jobs that are removed concurrently. More of them delay other work of the manager; fewer make a removal slower. */
const AT_ONCE = 16;

/** Cancels a job. The owner of the service and the administrator may cancel all its jobs, other users their own (S20). */
export async function cancelJob(principal: Admin | User, service: string, id: string, jobs: Jobs): Promise<void> {
  const record = await findEndableJob(principal, service, id, jobs);
  if (record.state === 'committing') throw committingError(record);
  if (isFinal(record.state)) {
    throw new JobError('job-finished', `the job "${id}" has ended already: it is ${record.state}`);
  }
  await jobs.scheduler.cancel(record, 'cancelled');
}

/** Removes a job and its log. A job that has not ended is cancelled first, unless its results are being committed. */
export async function removeJob(principal: Admin | User, service: string, id: string, jobs: Jobs): Promise<void> {
  await endAndRemove(await findEndableJob(principal, service, id, jobs), jobs);
}

/**
 * Removes the succeeded jobs of a service, or all of them, as far as the principal may. Jobs whose results are being
 * committed stay; after the others are removed, the error names the first of them.
 */
export async function removeJobs(principal: Admin | User, service: string, all: boolean, jobs: Jobs): Promise<void> {
  const found = await findService(principal, 'delete-jobs', service, jobs);
  const own = may(principal, 'delete-jobs', found.service) === 'own' && principal.kind === 'user';
  const query = {
    service,
    ...(own && { concerning: principal.uid }),
    ...(!all && { states: ['succeeded'] as const }),
    limit: 200,
  };
  const kept: unknown[] = [];
  let page = await jobs.store.list(query);
  for (;;) {
    const outcomes = await Promise.allSettled(page.items.map((record) => endAndRemove(record, jobs)));
    for (const outcome of outcomes) if (outcome.status === 'rejected') kept.push(outcome.reason);
    const failure = kept.find((reason) => !(reason instanceof JobError));
    if (failure !== undefined) throw failure;
    if (page.next === undefined) break;
    page = await jobs.store.list({ ...query, cursor: page.next });
  }
  if (kept.length > 0) throw kept[0];
}

/** Stops and removes all jobs of a service that was removed. */
export async function removeServiceJobs(
  serviceUid: string,
  jobs: Pick<Jobs, 'store' | 'runner' | 'secrets'>,
): Promise<void> {
  const removed = await jobs.store.removeService(serviceUid);
  await forgetAll(removed, jobs);
}

/** Removes a batch of the jobs that ended before this time. Resolves to the number of removed jobs. */
export async function expireJobs(before: number, jobs: Pick<Jobs, 'store' | 'runner' | 'secrets'>): Promise<number> {
  const removed = await jobs.store.expire(before, 500);
  await forgetAll(removed, jobs);
  return removed.length;
}

async function findEndableJob(principal: Admin | User, service: string, id: string, jobs: Jobs): Promise<JobRecord> {
  const found = await findService(principal, 'delete-jobs', service, jobs);
  if (may(principal, 'delete-jobs', found.service) === 'own') return findJob(principal, service, id, jobs);
  const record = await jobs.store.get({ service, id });
  if (record?.serviceUid !== found.service.uid) throw jobNotFound(service, id);
  return record;
}

async function endAndRemove(record: JobRecord, jobs: Jobs): Promise<void> {
  const key: JobKey = { service: record.service, id: record.id };
  if (!isFinal(record.state)) {
    if (record.state === 'committing') throw committingError(record);
    await jobs.scheduler.cancel(key, 'cancelled');
    // The job may have reached `committing` since it was read, and an unavailable store may delay its commit for long.
    const now = await jobs.store.get(key);
    if (now?.state === 'committing' && !now.taken) throw committingError(now);
    await jobs.scheduler.waitUntilEnded(key);
  }
  // Remove the log first: a record without a log is harmless, a log without a record would stay for ever.
  await forgetAttempts(record, jobs);
  await jobs.store.remove(key);
}

/** A service can have tens of thousands of jobs. Those that run are few, and each takes seconds to end: all at once. */
async function forgetAll(records: readonly JobRecord[], jobs: Pick<Jobs, 'runner' | 'secrets'>): Promise<void> {
  const slots = new Slots(AT_ONCE);
  const forget = (record: JobRecord) => forgetAttempts(record, jobs);
  await allSettled(records.map((record) => (isFinal(record.state) ? slots.use(() => forget(record)) : forget(record))));
}

async function forgetAttempts(record: JobRecord, { runner, secrets }: Pick<Jobs, 'runner' | 'secrets'>): Promise<void> {
  await removeOriginStore(record, secrets);
  await Promise.all(
    record.attempts.map(async ({ name }) => {
      await runner.stop(name, 'service-removed');
      await runner.forget(name);
    }),
  );
}

const committingError = ({ id, message }: JobRecord) =>
  new JobError('job-finished', `the job "${id}" has done its work, and can be removed when it has ended: ${message}`);

/** Records per page, so that other work gets its turn between two pages. */
const PAGE = 200;

/**
 * Stops and removes attempts that no job record names. A record is removed before its attempts are, so a manager that dies
 * in between leaves scripts and logs that nobody can reach. Resolves to the number of such attempts.
 */
export async function removeStrayAttempts(jobs: Pick<Jobs, 'runner' | 'store' | 'services'>): Promise<number> {
  // List the attempts before reading records: an attempt that starts later is in its record first, and not in this list.
  const strays = new Set(await jobs.runner.list());
  for await (const service of serviceNames(jobs)) {
    if (strays.size === 0) return 0;
    for await (const name of attemptNames(service, jobs)) strays.delete(name);
  }
  for (const name of strays) {
    await jobs.runner.stop(name, 'service-removed');
    await jobs.runner.forget(name);
  }
  return strays.size;
}

async function* serviceNames({ services }: Pick<Jobs, 'services'>): AsyncGenerator<string> {
  let cursor: Cursor | undefined;
  do {
    const page = await services.list({ ...(cursor !== undefined && { cursor }) });
    for (const { service } of page.items) yield service.definition.name;
    cursor = page.next;
  } while (cursor !== undefined);
}

async function* attemptNames(service: string, { store }: Pick<Jobs, 'store'>): AsyncGenerator<string> {
  let cursor: Cursor | undefined;
  do {
    const page = await store.list({ service, limit: PAGE, ...(cursor !== undefined && { cursor }) });
    for (const { attempts } of page.items) for (const { name } of attempts) yield name;
    cursor = page.next;
  } while (cursor !== undefined);
}
