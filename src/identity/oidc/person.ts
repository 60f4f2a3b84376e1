import { CLUSTER_ADMIN } from '../../service/index.ts';
import { IdentityError } from '../errors.ts';
import type { Claims } from '../groups.ts';

/** Longest `sub` that an issuer may use (OpenID Connect Core §2). */
const UID_LENGTH = 255;

/** Longest name shown; anything beyond is not a name. */
const NAME_LENGTH = 255;

/** What does not print, or changes how its neighbours print. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

/**
 * The uid of the person a token is about. It goes into labels, names and logs, and decides who owns what, so that a
 * user called like the owner of the administrator's services would own them.
 *
 * @throws {IdentityError} `bad-token`
 */
export function uidOf(claims: Claims): string {
  const uid = claims['sub'];
  if (typeof uid !== 'string' || uid.trim() === '' || uid.length > UID_LENGTH || INVISIBLE.test(uid)) {
    throw new IdentityError(
      'bad-token',
      'the access token does not say who you are: its "sub" must be a readable text',
    );
  }
  if (uid === CLUSTER_ADMIN) {
    throw new IdentityError('bad-token', `no user may be called "${CLUSTER_ADMIN}": ask the issuer for another "sub"`);
  }
  return uid;
}

/** The name of that person for people to read, if the claims have one. */
export function nameOf(claims: Claims): string | undefined {
  return [claims['name'], claims['preferred_username']].map(readable).find((name) => name !== '');
}

function readable(value: unknown): string {
  if (typeof value !== 'string') return '';
  return value.replace(new RegExp(INVISIBLE, 'gu'), '').trim().slice(0, NAME_LENGTH);
}
