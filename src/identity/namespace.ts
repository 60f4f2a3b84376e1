import { createHash } from 'node:crypto';
import { trimEnds } from '../lib/trim.ts';
import { aliasedUidHash } from '../model/user-uid.ts';

/** Longest name of a user's namespace. The rest of the 63 characters is for names that are derived from it. */
const NAMESPACE_LENGTH = 18;

/** Characters for the user if the services' namespace leaves none: as many as the default, `oscar-svc`, leaves. */
const DEFAULT_USER_LENGTH = 8;

/**
 * The namespace of a user's services (docs/operation.md#namespaces-of-users), the same name as with a Go manager. The name
 * is short, so that two users may get the same one: before using it, check its owner annotation (S18).
 *
 * @example
 * namespaceFor('62bb11b40398f737@egi.eu', 'oscar-svc'); // 'oscar-svc-62bb11b4'
 */
export function namespaceFor(uid: string, servicesNamespace: string): string {
  const { prefix, userLength } = divide(servicesNamespace);
  const aliased = aliasedUidHash(uid);
  if (aliased !== undefined) return `${prefix}-${aliased.slice(0, userLength)}`;
  const hash = createHash('sha1').update(uid).digest('hex');

  // Cut first: uids of EGI are longer than a DNS label, and their beginning is used all the same (A.6).
  const readable = trimHyphens(trimHyphens(uid.toLowerCase().replace(/[^a-z0-9-]+/g, '-')).slice(0, userLength));
  if (readable === '') return `${prefix}-${hash.slice(0, userLength)}`;
  return trimHyphens(`${prefix}-${readable}-${hash}`.slice(0, prefix.length + 1 + userLength));
}

function divide(servicesNamespace: string): { prefix: string; userLength: number } {
  const userLength = NAMESPACE_LENGTH - servicesNamespace.length - 1;
  if (userLength > 0) return { prefix: servicesNamespace, userLength };
  const prefix = trimHyphens(servicesNamespace.slice(0, NAMESPACE_LENGTH - 1 - DEFAULT_USER_LENGTH));
  return { prefix, userLength: DEFAULT_USER_LENGTH };
}

function trimHyphens(text: string): string {
  return trimEnds(text, (each) => each === '-');
}
