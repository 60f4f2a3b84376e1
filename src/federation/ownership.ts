import type { Admin, User } from '../identity/index.ts';
import { CLUSTER_ADMIN, type Service } from '../model/service/index.ts';

/** The administrator owns only services that the administrator created, and cannot lend services of users. */
export function isOwner(principal: Admin | User, { owner }: Service): boolean {
  return owner === (principal.kind === 'admin' ? CLUSTER_ADMIN : principal.uid);
}
