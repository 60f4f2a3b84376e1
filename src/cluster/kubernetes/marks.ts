import { createHash } from 'node:crypto';

/** Labels and annotations of ours, beside those of the contract. `oscar.grycap/` is reserved for the manager. */

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

/** Of what is a user's: their uid on it as an annotation, and its digest as a label (contract §3.1). */
export const OWNER = 'oscar.grycap.upv.es/owner';
export const OWNER_HASH = 'oscar.grycap.upv.es/owner-hash';

/** SHA-1 because the contract says so: it is a label, not a proof. */
export const ownerHash = (uid: string) => createHash('sha1').update(uid).digest('hex');

/** The label by which a Go manager finds services (contract §3.2). */
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
