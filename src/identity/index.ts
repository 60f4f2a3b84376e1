export { type Authenticator, createAuthenticator } from './authenticate.ts';
export type { IdentityErrorCode } from './errors.ts';
export { type Action, may } from './may.ts';
export { namespaceFor } from './namespace.ts';
export { createOidc } from './oidc/create-oidc.ts';
export { ownerNameLabel } from './owner-name-label.ts';
export type { Admin, Principal, User } from './principal.ts';
export { isServiceToken, newServiceToken } from './service-token.ts';
export { chooseVo } from './vo.ts';
