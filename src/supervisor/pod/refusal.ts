import { TransferError } from '../remote-store.ts';

/** What stores answer to keys that were good once. A key that is dropped when it expires is one that nobody knows. */
const EXPIRED = new Set([
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidAccessKeyId',
  'InvalidToken',
  'InvalidTokenId',
  'TokenRefreshRequired',
]);

/** A presigned URL was not taken: most likely its time is over. */
export class UrlRefused extends TransferError {}

/** Did the store refuse the keys, so that others may do? */
export function isRefusal(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof UrlRefused || EXPIRED.has(each.name)) return true;
  return false;
}
