import { createHash, timingSafeEqual } from 'node:crypto';
import type { Secret } from '../base/secret.ts';

export interface Account {
  readonly username: string;
  readonly password: Secret;
}

/**
 * Whether these are the credentials of that account. Both parts are always compared, as hashes of one length, so that
 * the time taken tells neither which part was wrong nor how long it is (S13).
 *
 * An account without a name or password matches nothing: a manager whose password was forgotten must not be open.
 */
export function isAccount(given: Account, account: Account): boolean {
  const sameUser = sameText(given.username, account.username);
  const samePassword = sameText(given.password.reveal(), account.password.reveal());
  const usable = account.username !== '' && account.password.reveal() !== '';
  return [sameUser, samePassword, usable].every(Boolean);
}

function sameText(a: string, b: string): boolean {
  return timingSafeEqual(sha256(a), sha256(b));
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
