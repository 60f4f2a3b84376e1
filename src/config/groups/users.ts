import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const users = {
  username: {
    name: 'OSCAR_USERNAME',
    kind: kind.accountName,
    default: 'oscar',
    meaning: 'The user name of the administrator.',
  },
  password: {
    name: 'OSCAR_PASSWORD',
    kind: kind.secret,
    unset: 'local: generated at the first start; kubernetes: required',
    meaning: 'The password of the administrator.',
  },
  oidcEnable: {
    name: 'OIDC_ENABLE',
    kind: kind.flag,
    default: 'false',
    meaning: 'Accept access tokens of the issuers.',
  },
  oidcIssuers: {
    name: 'OIDC_ISSUERS',
    kind: kind.issuers,
    default: '',
    meaning:
      'The issuers whose tokens are accepted. Required with `OIDC_ENABLE`. Users of the first have their `sub` as uid; each ' +
      'other issuer must be in `OIDC_ISSUER_ALIASES` or in `OIDC_EQUAL_ISSUERS`. With another first issuer, users have ' +
      'other uids ([several issuers](security.md#several-issuers)).',
  },
  oidcIssuerAliases: {
    name: 'OIDC_ISSUER_ALIASES',
    kind: kind.issuerAliases,
    default: '',
    meaning:
      'Aliases of the issuers after the first. The uid of their users is `<alias>~<sub>`: `egi~62bb11b4`. Changing an alias ' +
      'changes the uids.',
  },
  oidcEqualIssuers: {
    name: 'OIDC_EQUAL_ISSUERS',
    kind: kind.issuers,
    default: '',
    meaning:
      'Issuers whose users are those of the first issuer: the same `sub` is the same person. Each of them can impersonate ' +
      'every user of the others.',
  },
  oidcGroups: {
    name: 'OIDC_GROUPS',
    kind: kind.texts,
    default: '',
    meaning: 'Users must be in one of these groups. If empty, every user of the issuers is accepted.',
  },
  oidcGroupsClaim: {
    name: 'OIDC_GROUPS_CLAIM',
    kind: kind.text,
    unset: 'the usual claim of each issuer, `group_membership` for unknown issuers',
    meaning: 'The claim with the groups of a user.',
  },
  oidcAudience: {
    name: 'OIDC_AUDIENCE',
    kind: kind.texts,
    default: '',
    meaning:
      'Access tokens must name one of these in `aud`, `azp` or `client_id`: the clients of the applications that users use, ' +
      'or the audience that they request. If empty, tokens of every application of the issuers are accepted, and the manager ' +
      'warns about it.',
  },
  oidcIdTokenIssuers: {
    name: 'OIDC_ID_TOKEN_ISSUERS',
    kind: kind.issuers,
    default: '',
    meaning:
      'Issuers whose access tokens have the form of ID tokens, such as Dex. Their ID tokens for an entry of `OIDC_AUDIENCE` are ' +
      'accepted too, because nothing distinguishes the two. Needs `OIDC_AUDIENCE`.',
  },
  oidcClientId: {
    name: 'OIDC_CLIENT_ID',
    kind: kind.text,
    unset: 'the client that the refresh token names, if it is a JWT',
    meaning: 'The client id with which this manager redeems and revokes the refresh tokens of federated services.',
  },
  oidcClientSecret: {
    name: 'OIDC_CLIENT_SECRET',
    kind: kind.secret,
    unset: 'none: a public client',
    meaning: 'The secret of that client.',
  },
  oidcTokenExchange: {
    name: 'OIDC_TOKEN_EXCHANGE',
    kind: kind.oneOf('auto', 'true', 'false'),
    default: 'auto',
    meaning:
      'Restrict the access tokens that managers written in Go get to their cluster, by token exchange (RFC 8693): the ' +
      'audience is the id of the cluster. `auto`: if the issuer supports it; otherwise the status of the federation ' +
      'says why not. `true`: always; no such manager gets a token that is not restricted. `false`: never.',
  },
  pageClientId: {
    name: 'OSCAR_PAGE_CLIENT_ID',
    kind: kind.text,
    unset: 'the value of `OIDC_CLIENT_ID`',
    meaning:
      'The client id with which users sign in at the page: a public client of the issuers with PKCE, and with the address of ' +
      'the page (`https://…/ui/`) as a redirect URI. Without it the page offers the password of the administrator only.',
  },
  pageScopes: {
    name: 'OSCAR_PAGE_SCOPES',
    kind: kind.texts,
    default: 'openid,profile,email',
    meaning: 'The scopes that the page asks the issuers for.',
  },
  pageLoginHints: {
    name: 'OSCAR_PAGE_LOGIN_HINTS',
    kind: kind.texts,
    default: '',
    meaning: 'User names that the page offers to sign in as, with one click. For demonstrations.',
  },
  usersAdmin: {
    name: 'USERS_ADMIN',
    kind: kind.texts,
    default: '',
    meaning: 'Uids of users who may read the full status and the execution log of the cluster.',
  },
} as const satisfies Settings;
