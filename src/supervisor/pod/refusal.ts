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

/** A pod may begin before there are keys for what its script leaves. */
export class KeysMissing extends Error {
  constructor() {
    super('there are no keys yet');
    this.name = 'KeysMissing';
  }
}

/** Did the store refuse the keys, or are there none, so that others may do? */
export function isRefusal(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause)
    if (each instanceof UrlRefused || each instanceof KeysMissing || EXPIRED.has(each.name)) return true;
  return false;
}
