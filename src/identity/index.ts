export {
  type Authenticator,
  createAuthenticator,
  isServiceToken,
  networkOf,
  newServiceToken,
  readAuthorization,
} from './authenticate.ts';
export { type Action, may } from './authorize.ts';
export type { IdentityErrorCode } from './errors.ts';
export { AccessTokenSource } from './exchange/access-token-source.ts';
export { grantCondition, narrowingCondition } from './exchange/condition.ts';
export type { ExchangeErrorCode } from './exchange/errors.ts';
export { attachGrant, detachGrants, findGrant } from './grants/attach.ts';
export type { GrantErrorCode } from './grants/errors.ts';
export { expireRetainedGrants } from './grants/retain.ts';
export { namespaceFor } from './namespace.ts';
export { DEVICE_CODE_GRANT, type PageGrant, PageSignIn } from './oidc/page-sign-in.ts';
export { createTokenVerifier } from './oidc/token-verifier.ts';
export { ownerNameLabel } from './owner-name-label.ts';
export type { Admin, Principal, User } from './principal.ts';
export { type IssuerAliases, type IssuerSettings, UserNames } from './user-names.ts';
export { chooseVo } from './vo.ts';
