import type { Admin, User } from '../identity/index.ts';
import { CLUSTER_ADMIN, type Service } from '../model/service/index.ts';

/** The administrator owns what the administrator made: nobody else's service is lent by them. */
export function isOwner(principal: Admin | User, { owner }: Service): boolean {
  return owner === (principal.kind === 'admin' ? CLUSTER_ADMIN : principal.uid);
}
