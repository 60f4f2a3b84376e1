import { OscarError } from '../../lib/oscar-error.ts';
import type { JobRecord, TakenJob } from '../../model/job/index.ts';
import { type AttemptKey, DelegationError, type MemberKey, type Origin } from '../../peers/index.ts';
import type { TargetConfig, WorkerRole } from './target.ts';

/** Whom to speak to about an attempt, and as whom. */
export interface OriginContact {
  readonly origin: Origin;
  readonly as: MemberKey;
  readonly attempt: AttemptKey;
  readonly role: WorkerRole;
}

type Speaking = Pick<TargetConfig, 'services' | 'coordinatorOf'>;

/** About a job that was taken. Throws `fenced` when its service is no worker of that federation any more. */
export async function contactOrigin(
  { service: name, serviceUid, taken }: Pick<JobRecord, 'service' | 'serviceUid' | 'taken'>,
  hosting: Speaking,
): Promise<OriginContact> {
  const service = (await hosting.services.get(name))?.service;
  const role = service?.uid === serviceUid ? service.federation : undefined;
  if (!taken || role?.role !== 'worker' || role.uid !== taken.uid) throw noWorker(name);
  return contactAs(name, taken, role, hosting);
}

/** About an attempt of the federation in which a service has this role. Throws `origin-silent` while it has no key, `fenced` when nobody knows its coordinator. */
export async function contactAs(
  name: string,
  { member, job, epoch }: Pick<TakenJob, 'member' | 'job' | 'epoch'>,
  role: WorkerRole,
  { coordinatorOf }: Pick<TargetConfig, 'coordinatorOf'>,
): Promise<OriginContact> {
  const coordinator = await coordinatorOf(role);
  if (!coordinator) throw noWorker(name);
  const { origin, key } = coordinator;
  // A new one may have taken the place of the one that the worker is known by here. That is over in a moment.
  if (!key)
    throw new DelegationError('origin-silent', `"${name}" has no key for its coordinator at this moment: try again`);
  return { origin, as: { uid: role.uid, member, key }, attempt: { job, epoch }, role };
}

const noWorker = (name: string) =>
  new DelegationError('fenced', `the service "${name}" is no worker of that federation any more`);

/** What an origin says when it does not want an attempt any more. Everything else may be better in a moment. */
const OVER: Readonly<Record<string, string>> = {
  fenced: 'another attempt of the job took its place, or it has ended',
  'job-gone': 'its origin does not know the job any more',
  'federation-gone': 'its federation has ended',
};

/** Why nobody wants the attempt any more; undefined when the origin did not say that. */
export function attemptOverReason(error: unknown): string | undefined {
  return error instanceof OscarError && Object.hasOwn(OVER, error.code) ? OVER[error.code] : undefined;
}
