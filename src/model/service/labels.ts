import { aliasedUidHash } from '../user-uid.ts';
import { CLUSTER_ADMIN, type Service } from './service.ts';

/**
 * Labels that only the manager writes (docs/go-manager.md#labels-and-annotations). What a client sends under these keys
 * is ignored.
 */
const RESERVED_LABELS = new Set([
  'oscar_service',
  'applicationId',
  'queue',
  'owner_name',
  'vo',
  'uid',
  'oscar_rescheduler',
  'kueue.x-k8s.io/queue-name',
  'networking.knative.dev/visibility',
]);

/** `oscar.grycap/…` controls behaviour (worker role, origin, job owner), so clients cannot set it (F43). */
const RESERVED_PREFIX = 'oscar.grycap/';

const isReserved = (key: string) => key.startsWith(RESERVED_PREFIX) || RESERVED_LABELS.has(key);

export function withoutReservedLabels(labels: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([key]) => !isReserved(key)));
}

export function withoutReservedAnnotations(annotations: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(annotations).filter(([key]) => !key.startsWith(RESERVED_PREFIX)));
}

/** The labels of the service and of the manager (docs/go-manager.md#labels-and-annotations). */
export function serviceLabels(service: Service): Record<string, string> {
  const { name, labels, vo, isolation_level } = service.definition;
  return {
    ...labels,
    'oscar.grycap/user-service': 'true',
    oscar_service: name,
    applicationId: name,
    queue: `root.oscar-queue.${name}`,
    owner_name: service.ownerName,
    ...(vo === '' ? {} : { vo: voLabel(vo) }),
    ...(isolation_level === 'USER' && service.owner !== CLUSTER_ADMIN ? { uid: shortUid(service.owner) } : {}),
  };
}

/**
 * The service's own annotations, and for a worker those by which it is known as one
 * (docs/go-manager.md#labels-and-annotations).
 */
export function serviceAnnotations({ definition, federation }: Service): Record<string, string> {
  if (federation?.role !== 'worker') return definition.annotations;
  const { origin, uid, revision } = federation;
  return {
    ...definition.annotations,
    [`${RESERVED_PREFIX}origin-cluster`]: origin.clusterId,
    [`${RESERVED_PREFIX}origin-service`]: origin.service,
    [`${RESERVED_PREFIX}federation-worker`]: 'true',
    [`${RESERVED_PREFIX}federation-uid`]: uid,
    [`${RESERVED_PREFIX}federation-revision`]: String(revision),
  };
}

/** `/vo.example.eu/group` → `vo.example.eu--group`, as existing queries expect it. */
function voLabel(vo: string): string {
  return vo
    .replace('/', '')
    .replaceAll('/', '--')
    .replaceAll(' ', '__')
    .replaceAll(':', '___')
    .replace(/[^A-Za-z0-9._-]/g, '-')
    .slice(0, 63)
    .replace(/^[._-]+|[._-]+$/g, '');
}

/** The part of a uid that is used in derived names. A shorter uid is used whole (R22). */
function shortUid(uid: string): string {
  return (aliasedUidHash(uid) ?? uid).slice(0, 10);
}

/** With isolation USER: the bucket of one user for a bucket of the service, in legal characters. */
export function isolatedBucket(bucket: string, uid: string): string {
  const suffix = shortUid(uid)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  return `${bucket}-${suffix || 'user'}`;
}
