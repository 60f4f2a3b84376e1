export {
  type Authenticator,
  type AuthenticatorOptions,
  createAuthenticator,
  type ServiceRoute,
  type TokenVerifier,
} from './authenticate.ts';
export type { Account } from './basic.ts';
export { IdentityError, type IdentityErrorCode } from './errors.ts';
export { type Action, type Decision, type Guarded, may } from './may.ts';
export { namespaceFor } from './namespace.ts';
export { createOidc, type OidcOptions } from './oidc/create-oidc.ts';
export type { OidcLogger } from './oidc/logger.ts';
export { ownerNameLabel } from './owner-name-label.ts';
export type { Admin, Principal, ServiceToken, User } from './principal.ts';
export { isServiceToken, newServiceToken } from './service-token.ts';
export { chooseVo, type VoQuestion } from './vo.ts';
