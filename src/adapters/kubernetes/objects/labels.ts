import { createHash } from 'node:crypto';
import type { JobKey } from '../../../model/job/index.ts';
import { labelKeyProblem, labelValueProblem } from '../../../model/service/index.ts';

/** Labels and annotations of this manager, in addition to those of the Go manager. `oscar.grycap/` is reserved for the manager. */

/** Annotation on the ConfigMap of a service: its uid. A later service of the same name has another one. */
export const SERVICE_UID_ANNOTATION = 'oscar.grycap/uid';

/** Annotation on the ConfigMap of a service: its role in a federation, as JSON. */
export const FEDERATION = 'oscar.grycap/federation';

/** Label: what an object of the manager is for: a kind of secrets (`SecretKind`), `journal`, or `name` (a reserved name). */
export const PURPOSE = 'oscar.grycap/room';

/** Annotation: the key of an object whose name is derived from it. */
export const KEY = 'oscar.grycap/key';

/** Annotation on the pod of an attempt: its job, as `<service>/<id>`. */
export const JOB_KEY = 'oscar.grycap/job-key';

/**
 * On objects of a user: the user's uid as an annotation, and its digest as a label
 * (docs/go-manager.md#kubernetes-objects).
 */
export const OWNER = 'oscar.grycap.upv.es/owner';
export const OWNER_HASH = 'oscar.grycap.upv.es/owner-hash';

/** SHA-1 because the Go manager uses it. It is only a label; nothing is authenticated by it. */
export const ownerHash = (uid: string) => createHash('sha1').update(uid).digest('hex');

/** The label by which a Go manager finds services (docs/go-manager.md#kubernetes-objects). */
export const SERVICE = 'oscar_service';

/**
 * The name of an object for a key that may be any text. It is longer than a service's name may be, so that no service can
 * have the same name (S15).
 */
export function derivedName(purpose: string, key: string): string {
  return `oscar-${purpose}-${createHash('sha256').update(key).digest('hex').slice(0, 40)}`;
}

/** Whether Kubernetes accepts this as the name of an object. */
export function isObjectName(name: string): boolean {
  return name.length <= 63 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name);
}

type Texts = Readonly<Record<string, string>>;

/** The labels that Kubernetes accepts. Invalid ones are dropped: they must not keep a service from being created or a job from running. */
export const legalLabels = (labels: Texts): Record<string, string> => legal(labels, labelValueProblem);

export const legalAnnotations = (annotations: Texts): Record<string, string> => legal(annotations, () => undefined);

function legal(texts: Texts, valueProblem: (value: string) => string | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(texts).filter(([key, value]) => (labelKeyProblem(key) ?? valueProblem(value)) === undefined),
  );
}

/** Every job id that this manager creates begins with so many characters of the service's name (docs/go-manager.md#kubernetes-objects). */
const SERVICE_PREFIX = 16;

/**
 * The name of the Job of a job: the job's id, so that people find it. An id that does not begin with the service's name
 * could belong to another service in the same namespace, so its Job gets a name derived from both.
 */
export function jobObjectName({ service, id }: JobKey): string {
  const begin = service.slice(0, SERVICE_PREFIX).replace(/-+$/, '');
  return isObjectName(id) && id.startsWith(begin) ? id : derivedName('job', JSON.stringify([service, id]));
}
