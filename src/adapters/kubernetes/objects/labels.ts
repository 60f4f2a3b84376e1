import { createHash } from 'node:crypto';
import type { JobKey } from '../../../model/job/index.ts';
import { labelKeyProblem, labelValueProblem } from '../../../model/service/index.ts';

/** Labels and annotations of ours, beside those of the Go manager. `oscar.grycap/` is reserved for the manager. */

/** Of a service, on its ConfigMap: another service of the same name, later, has another. */
export const UID = 'oscar.grycap/uid';

/** What a service is in a federation, as JSON on its ConfigMap. */
export const FEDERATION = 'oscar.grycap/federation';

/** What an object in the manager's namespace is for: a room of secrets, `journal`, `name`. */
export const ROOM = 'oscar.grycap/room';

/** The key of an object whose name is a digest. */
export const KEY = 'oscar.grycap/key';

/** On the pod of an attempt: the job that it is a try of, as `<service>/<id>`. */
export const JOB_KEY = 'oscar.grycap/job-key';

/**
 * Of what is a user's: their uid on it as an annotation, and its digest as a label
 * (docs/go-manager.md#kubernetes-objects).
 */
export const OWNER = 'oscar.grycap.upv.es/owner';
export const OWNER_HASH = 'oscar.grycap.upv.es/owner-hash';

/** SHA-1 because the Go manager uses it: it is a label, not a proof. */
export const ownerHash = (uid: string) => createHash('sha1').update(uid).digest('hex');

/** The label by which a Go manager finds services (docs/go-manager.md#kubernetes-objects). */
export const SERVICE = 'oscar_service';

/**
 * The name of an object that is kept under any key at all. It is longer than a service's name may be, so that no
 * service, wherever it is, can be called like one (S15).
 */
export function derivedName(room: string, key: string): string {
  return `oscar-${room}-${createHash('sha256').update(key).digest('hex').slice(0, 40)}`;
}

/** May this be the name of an object, so that asking for it makes sense? */
export function isObjectName(name: string): boolean {
  return name.length <= 63 && /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(name);
}

type Words = Readonly<Record<string, string>>;

/** Those that Kubernetes takes. Whatever is stored must not keep a service from being made, or a job from running. */
export const legalLabels = (labels: Words): Record<string, string> => legal(labels, labelValueProblem);

export const legalAnnotations = (annotations: Words): Record<string, string> => legal(annotations, () => undefined);

function legal(words: Words, valueProblem: (value: string) => string | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(words).filter(([key, value]) => (labelKeyProblem(key) ?? valueProblem(value)) === undefined),
  );
}

/** What of the name of its service begins every id that this manager makes (docs/go-manager.md#kubernetes-objects). */
const SHARED = 16;

/**
 * The name of the object of a job: its id, so that people find it. An id that does not begin like its service could be
 * that of another service in the same namespace, so that one gets a name of both.
 */
export function jobObjectName({ service, id }: JobKey): string {
  const begin = service.slice(0, SHARED).replace(/-+$/, '');
  return isObjectName(id) && id.startsWith(begin) ? id : derivedName('job', JSON.stringify([service, id]));
}
