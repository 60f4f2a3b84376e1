import { createHash } from 'node:crypto';

/** Stands between the alias of an issuer and the `sub` in uids of users of further issuers (decision 0057). */
const MARK = '~';

/**
 * At least two characters: Keycloak itself uses one letter and a colon in `sub`. At most 32: the alias is part of every
 * uid, and uids are listed in definitions.
 */
export const ALIAS_FORM = /^[a-z0-9][a-z0-9-]{0,30}[a-z0-9]$/;

const ALIASED = /^([a-z0-9][a-z0-9-]{0,30}[a-z0-9])~/;

/** The uid of a user of an issuer with an alias. */
export const aliasedUid = (alias: string, subject: string): string => `${alias}${MARK}${subject}`;

/** The alias with which a uid begins, and the rest; undefined if it begins with none. */
export function splitUid(uid: string): { readonly alias: string; readonly subject: string } | undefined {
  const alias = ALIASED.exec(uid)?.[1];
  return alias === undefined ? undefined : { alias, subject: uid.slice(alias.length + MARK.length) };
}

/**
 * A text in lower-case hexadecimal for names that are derived from the beginning of a uid. All users of an issuer with an
 * alias have the same beginning, so that their names are derived from a hash. Undefined for other uids.
 */
export function aliasedUidHash(uid: string): string | undefined {
  return splitUid(uid) && createHash('sha256').update(uid).digest('hex');
}
