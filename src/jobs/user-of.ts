import type { User } from '../identity/index.ts';

/** A principal for the rules of buckets. The administrator's services work with the rights of no user. */
export const userOf = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
