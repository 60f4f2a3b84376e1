import { uuidV5 } from '../../lib/uuid.ts';
import type { AttemptRecord, JobKey, NewJob } from '../../model/job/index.ts';

/** Namespaces of derived UUIDs. They must never change. */
const FURTHER = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260002';
const TAKEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260003';
const GIVEN = 'c0a4d9f2-6b1e-5c3a-9f57-05ca20260004';

/**
 * The first attempt of a job has the name of the job (docs/jobs.md#names-of-jobs-and-attempts); the names of further
 * attempts are derived from it. Another manager may have chosen the id of a delegated job, and it may equal the id of a job
 * of another service. Attempt names are unique in the whole cluster, so such a job gets names that are derived from its
 * service, and nobody can reach the attempts of other services.
 */
export function attemptName(job: NamedJob, epoch: number): string {
  const { service, serviceUid, id, delegatedFrom, openedBy } = job;
  if (delegatedFrom !== undefined || openedBy !== undefined) {
    return `${cut(service)}-${uuidV5(GIVEN, JSON.stringify([serviceUid, id, epoch]))}`;
  }
  return epoch <= 1 ? id : `${cut(id)}-${uuidV5(FURTHER, JSON.stringify([id, epoch]))}`;
}

/** Whether an attempt ran on this cluster. A Go manager gives attempts no names of their own: there the job has its name here. */
export const isLocalAttempt = (
  job: NamedJob,
  { name, epoch, place }: Pick<AttemptRecord, 'name' | 'epoch' | 'place'>,
  here: { readonly place: string },
) => place === here.place && name === attemptName(job, epoch);

type NamedJob = Pick<NewJob, 'service' | 'serviceUid' | 'id' | 'delegatedFrom' | 'openedBy'>;

/**
 * The name of a hosted attempt at its target (docs/peer-protocol.md#jobs). Origin and target both compute it, and the same
 * offer always gives the same name.
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
