import { createHash } from 'node:crypto';
import { trimEnds } from '../lib/trim.ts';

/** Longest name of a user's namespace; what is left of 63 is for the names that Kubernetes and we derive from it. */
const NAMESPACE_LENGTH = 18;

/** Room for the user when the services' namespace leaves none: as much as the default, `oscar-svc`, leaves. */
const ROOM_WITH_DEFAULTS = 8;

/**
 * The namespace of a user's services (docs/operation.md#namespaces-of-users), the same one that a Go manager would have
 * made. It is short, so that two users may share one: whoever creates it must look at its owner annotation first (S18).
 *
 * @example
 * namespaceFor('62bb11b40398f737@egi.eu', 'oscar-svc'); // 'oscar-svc-62bb11b4'
 */
export function namespaceFor(uid: string, servicesNamespace: string): string {
  const { prefix, room } = divide(servicesNamespace);
  const hash = createHash('sha1').update(uid).digest('hex');

  // Cut before anything is judged: uids of EGI are longer than a DNS label and keep their beginning all the same (A.6).
  const readable = trimHyphens(trimHyphens(uid.toLowerCase().replace(/[^a-z0-9-]+/g, '-')).slice(0, room));
  if (readable === '') return `${prefix}-${hash.slice(0, room)}`;
  return trimHyphens(`${prefix}-${readable}-${hash}`.slice(0, prefix.length + 1 + room));
}

function divide(servicesNamespace: string): { prefix: string; room: number } {
  const room = NAMESPACE_LENGTH - servicesNamespace.length - 1;
  if (room > 0) return { prefix: servicesNamespace, room };
  const prefix = trimHyphens(servicesNamespace.slice(0, NAMESPACE_LENGTH - 1 - ROOM_WITH_DEFAULTS));
  return { prefix, room: ROOM_WITH_DEFAULTS };
}

function trimHyphens(text: string): string {
  return trimEnds(text, (each) => each === '-');
}
