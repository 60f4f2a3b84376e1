import type { Field } from '../../lib/fields.ts';
import { isSlash, trimEnd } from '../../lib/trim.ts';
import { aliasedUidHash } from '../user-uid.ts';
import { CLUSTER_ADMIN, type Service } from './service.ts';

/** Why a name cannot be used, as the end of a sentence, or undefined when it can. */
type NameProblem = string | undefined;

/**
 * Buckets, jobs and pods get names that begin with the service's; 39 leaves room for a job's uuid
 * (docs/fdl.md#all-keys).
 */
const LONGEST_SERVICE_NAME = 39;

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

export function serviceNameProblem(name: string): NameProblem {
  if (name === '') return 'is required';
  if (name.length <= LONGEST_SERVICE_NAME && DNS_LABEL.test(name)) return undefined;
  return `must be 1 to ${LONGEST_SERVICE_NAME} lower-case letters, digits and hyphens, not beginning or ending with a hyphen`;
}

/** Cluster ids are used in paths, headers and file names. */
export function clusterIdProblem(id: string): NameProblem {
  if (id === '') return 'is required';
  return /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(id)
    ? undefined
    : 'must be 1 to 63 letters, digits, dots, hyphens and underscores, beginning and ending with a letter or digit';
}

const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
const KEY_PREFIX = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/** Kubernetes' rule for the keys of labels and annotations: `[prefix/]name`. */
export function labelKeyProblem(key: string): NameProblem {
  const slash = key.indexOf('/');
  const name = key.slice(slash + 1);
  const legal = name !== '' && LABEL_VALUE.test(name) && (slash < 0 || KEY_PREFIX.test(key.slice(0, slash)));
  return legal
    ? undefined
    : 'is not a legal key: up to 63 letters, digits, hyphens, underscores and dots, with an optional DNS prefix and slash';
}

export function labelValueProblem(value: string): NameProblem {
  return LABEL_VALUE.test(value)
    ? undefined
    : 'is not a legal label value: up to 63 letters, digits, hyphens, underscores and dots, beginning and ending with a letter or digit';
}

export function variableNameProblem(name: string): NameProblem {
  return /^[A-Za-z_.-][A-Za-z0-9_.-]*$/.test(name)
    ? undefined
    : 'is not a legal name of an environment variable: letters, digits, "_", "-" and ".", not beginning with a digit';
}

export function imageProblem(image: string): NameProblem {
  if (image === '') return 'is required';
  return /^[\x21-\x7e]{1,1024}$/.test(image) ? undefined : 'must be an image reference without blanks';
}

/**
 * Whether the image is in one of the repositories. An entry is a repository or a part of its path, compared up to a path
 * border: `ghcr.io/org` allows `ghcr.io/org/app:1`, not `ghcr.io/organic/app` nor `evil.io/ghcr.io/org` (S16). An
 * empty list allows every image.
 */
export function isImageAllowed(image: string, repositories: readonly string[]): boolean {
  if (repositories.length === 0) return true;
  const repository = parseRepository(image);
  return repositories.some((entry) => {
    const prefix = trimEnd(entry, isSlash);
    return prefix !== '' && (repository === prefix || repository.startsWith(`${prefix}/`));
  });
}

/** Without digest and tag; a colon before the last slash belongs to a port. */
function parseRepository(image: string): string {
  const [name = ''] = image.split('@');
  const colon = name.indexOf(':', name.lastIndexOf('/') + 1);
  return colon < 0 ? name : name.slice(0, colon);
}

/** Whether this is a legal Kubernetes label value, which names in request paths must be (docs/go-manager.md#services). */
export function isServiceReference(name: string): boolean {
  return name !== '' && LABEL_VALUE.test(name);
}

/** Parsers of names in messages of other managers. */

export const clusterIdField: Field<string> = {
  is: 'a cluster id',
  read: (raw) => (typeof raw === 'string' && !clusterIdProblem(raw) ? raw : undefined),
};

export const serviceNameField: Field<string> = {
  is: 'the name of a service',
  read: (raw) => (typeof raw === 'string' && !serviceNameProblem(raw) ? raw : undefined),
};

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
