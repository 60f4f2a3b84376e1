import { uuidV5 } from '../../lib/uuid.ts';
import type { JobKey, NewJob } from '../../model/job/index.ts';

/** The spaces of names that follow from others. They must never change. */
const FURTHER = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260002';
const TAKEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260003';
const GIVEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260004';

/**
 * The first attempt of a job has its name (docs/jobs.md#names-of-jobs-and-attempts); further ones have names of their
 * own that follow from it. An id that somebody else chose may be that of a job of another service, and names of
 * attempts are of the whole cluster: what is run under it has names that belong to its service, so that nobody gets
 * hold of what others run.
 */
export function attemptName(job: NamedJob, epoch: number): string {
  const { service, serviceUid, id, delegatedFrom, openedBy } = job;
  if (delegatedFrom !== undefined || openedBy !== undefined) {
    return `${cut(service)}-${uuidV5(GIVEN, JSON.stringify([serviceUid, id, epoch]))}`;
  }
  return epoch <= 1 ? id : `${cut(id)}-${uuidV5(FURTHER, JSON.stringify([id, epoch]))}`;
}

type NamedJob = Pick<NewJob, 'service' | 'serviceUid' | 'id' | 'delegatedFrom' | 'openedBy'>;

/**
 * The name, at the cluster that runs it, of an attempt that it took from another (docs/peer-protocol.md#jobs). Both
 * sides know it without asking, and the same offer has the same name.
 */
export function hostedAttemptName(
  uid: string,
  member: string,
  job: JobKey,
  epoch: number,
  workerService: string,
): string {
  return `${cut(workerService)}-${uuidV5(TAKEN, JSON.stringify([uid, member, job.service, job.id, epoch]))}`;
}

const cut = (name: string) => name.slice(0, 16).replace(/-+$/, '');
