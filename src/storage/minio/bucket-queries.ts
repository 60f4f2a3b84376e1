import type { Bucket, BucketQuery } from '../object-store.ts';

const RESERVED = /^oscar-(staging|events)/;

/** Is it the manager's own, which nobody meets? */
export const isReserved = (name: string) => RESERVED.test(name);

/** Whatever said where to look: it may be older than the bucket. */
export function isMeant(
  { owner, visibility, allowedUsers, madeFor }: Pick<Bucket, 'owner' | 'visibility' | 'allowedUsers' | 'madeFor'>,
  query: BucketQuery,
): boolean {
  if (query.madeFor !== undefined && madeFor?.uid !== query.madeFor) return false;
  const { visibleTo } = query;
  if (visibleTo === undefined || visibleTo === owner || visibility === 'public') return true;
  return visibility === 'restricted' && allowedUsers.includes(visibleTo);
}
