import { createHash } from 'node:crypto';
import { CLUSTER_ADMIN, type Service } from '../../../service/index.ts';

/** The label of a Job by which Kueue knows that it waits, and in which queue. */
export const QUEUE = 'kueue.x-k8s.io/queue-name';

/** The queue of a service is named in a label, which takes no more. */
const LONGEST = 63;

/** Digits of a digest that are added to a name which would be too long, or which somebody else has. */
const DIGITS = 10;

/**
 * Do jobs of this service wait for Kueue? Those of users do. A user's service in the namespace of the administrator, where
 * only an operator can have put it, does not: the quota of a user is for their own namespaces.
 */
export function isQueued(
  { owner, namespace }: Pick<Service, 'owner' | 'namespace'>,
  servicesNamespace: string,
): boolean {
  return owner !== CLUSTER_ADMIN && namespace !== servicesNamespace;
}

/** The LocalQueue of a service (contract §3.3). */
export function localQueueName(service: string): string {
  return fitting(`oscar-lq-${service}`, service);
}

/**
 * Names for the ClusterQueue of a user, in the order in which they are looked for. Two users can come to share the first
 * one, as `a.b` and `a-b` do; whoever comes second gets the next, which has digits of their own.
 */
export function clusterQueueNames(uid: string): readonly [string, ...string[]] {
  const plain = `oscar-cq-${sanitised(uid)}`;
  const longer = [DIGITS, 4 * DIGITS].map((digits) => withDigits(plain, uid, digits));
  return [cut(plain, LONGEST), ...longer];
}

/** The uid in the letters that names and labels may have (contract §3.3). */
export const sanitised = (uid: string) =>
  cut(uid.toLowerCase().replace(/[^a-z0-9-]/g, '-'), LONGEST).replace(/^-+/, '') || 'user';

const fitting = (name: string, key: string) => (name.length <= LONGEST ? name : withDigits(name, key, DIGITS));

function withDigits(name: string, key: string, digits: number): string {
  const hash = createHash('sha256').update(key).digest('hex').slice(0, digits);
  return `${cut(name, LONGEST - digits - 1)}-${hash}`;
}

/** No longer than that, and with no hyphen at its end. */
const cut = (name: string, most: number) => name.slice(0, most).replace(/-+$/, '');
