import type { Config } from '../../config/index.ts';
import { OscarError } from '../../lib/oscar-error.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import type { JobRecord, S3Access, TakenJob } from '../../model/job/index.ts';
import type { FederationOrigin } from '../../model/service/index.ts';
import { type AttemptKey, DelegationError, type MemberKey, type Origin, type OriginStore } from '../../peers/index.ts';
import type { TargetConfig, WorkerRole } from './target.ts';

/** The client and the credentials for requests about an attempt. */
export interface OriginContact {
  readonly origin: Origin;
  readonly as: MemberKey;
  readonly attempt: AttemptKey;
  readonly role: WorkerRole;
}

type Speaking = Pick<TargetConfig, 'services' | 'coordinatorOf'>;

/** For a delegated job. Throws `fenced` if its service is no longer a worker of that federation. */
export async function contactOrigin(
  { service: name, serviceUid, taken }: Pick<JobRecord, 'service' | 'serviceUid' | 'taken'>,
  deps: Speaking,
): Promise<OriginContact> {
  const service = (await deps.services.get(name))?.service;
  const role = service?.uid === serviceUid ? service.federation : undefined;
  if (!taken || role?.role !== 'worker' || role.uid !== taken.uid) throw noWorker(name);
  return contactAs(name, taken, role, deps);
}

/**
 * For an attempt in the federation in which a service has this role. Throws `origin-silent` while the worker has no
 * key, and `fenced` if its coordinator is not known.
 */
export async function contactAs(
  name: string,
  { member, job, epoch }: Pick<TakenJob, 'member' | 'job' | 'epoch'>,
  role: WorkerRole,
  { coordinatorOf }: Pick<TargetConfig, 'coordinatorOf'>,
): Promise<OriginContact> {
  const coordinator = await coordinatorOf(role);
  if (!coordinator) throw noWorker(name);
  const { origin, key } = coordinator;
  // The member key may just have been replaced. This lasts a moment only.
  if (!key)
    throw new DelegationError('origin-silent', `"${name}" has no key for its coordinator at this moment: try again`);
  return { origin, as: { uid: role.uid, member, key }, attempt: { job, epoch }, role };
}

const noWorker = (name: string) =>
  new DelegationError('fenced', `the service "${name}" is no longer a worker of that federation`);

/** The errors by which an origin says that it no longer wants an attempt. All other errors are worth a retry. */
const OVER: Readonly<Record<string, string>> = {
  fenced: 'another attempt of the job took its place, or it has ended',
  'job-gone': 'the origin does not know the job any more',
  'federation-gone': 'its federation has ended',
};

/** Why the origin no longer wants the attempt; undefined if the error does not say that. */
export function attemptOverReason(error: unknown): string | undefined {
  return error instanceof OscarError && Object.hasOwn(OVER, error.code) ? OVER[error.code] : undefined;
}

/** Addresses of stores that the operator trusts. */
export interface OperatorStores {
  /** `OSCAR_CLUSTERS`. */
  readonly registered: Config['clusters'];
  /** Is this endpoint this manager itself? */
  readonly isOwn: (endpoint: string) => boolean;
  /** The addresses of this cluster's own store, for scripts and for others. */
  readonly own: readonly string[];
}

/** The name of the origin's store in an attempt. */
export const ORIGIN_STORE = 'minio.origin';

/**
 * Access to an origin's store (docs/security.md#addresses-that-users-choose). The address comes from the user who
 * created the worker, so connections are guarded, unless the operator has registered the same address or the store is
 * our own.
 */
export function originStoreAccess(store: OriginStore, origin: FederationOrigin, known: OperatorStores): S3Access {
  const { endpoint, region, verify, accessKey, secretKey, sessionToken, expiresAt } = store;
  const keys = { accessKey, secretKey, ...(sessionToken && { sessionToken }), expiresAt };
  return { type: 's3', endpoint, region, verify, ...keys, guarded: !isVouchedFor(endpoint, origin, known) };
}

function isVouchedFor(endpoint: string, origin: FederationOrigin, { registered, isOwn, own }: OperatorStores): boolean {
  const store = registered.get(origin.clusterId)?.store;
  if (store !== undefined && isSame(store, endpoint)) return true;
  return isOwn(origin.endpoint) && own.some((each) => isSame(each, endpoint));
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [URL.parse(one), URL.parse(other)];
  return a !== null && b !== null && bare(a) === bare(b);
}

const bare = ({ origin, pathname }: URL) => `${origin}${trimEnd(pathname, isSlash)}`;
