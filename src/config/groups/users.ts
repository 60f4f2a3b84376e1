import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const users = {
  username: {
    name: 'OSCAR_USERNAME',
    kind: kind.accountName,
    default: 'oscar',
    meaning: 'The name of the administrator.',
  },
  password: {
    name: 'OSCAR_PASSWORD',
    kind: kind.secret,
    unset: 'local: made at the first start; kubernetes: required',
    meaning: 'The password of the administrator.',
  },
  oidcEnable: {
    name: 'OIDC_ENABLE',
    kind: kind.flag,
    default: 'false',
    meaning: 'Let users of the issuers in with their access tokens.',
  },
  oidcIssuers: {
    name: 'OIDC_ISSUERS',
    kind: kind.issuers,
    default: '',
    meaning: 'The issuers whose tokens are accepted. Required with `OIDC_ENABLE`.',
  },
  oidcGroups: {
    name: 'OIDC_GROUPS',
    kind: kind.texts,
    default: '',
    meaning: 'Users must be in one of these groups. Every user of the issuers is let in if empty.',
  },
  oidcGroupsClaim: {
    name: 'OIDC_GROUPS_CLAIM',
    kind: kind.text,
    unset: 'the usual one of each issuer, `group_membership` for those not known',
    meaning: 'The claim that holds the groups of a user.',
  },
  oidcAudience: {
    name: 'OIDC_AUDIENCE',
    kind: kind.text,
    unset: 'the audience is not checked',
    meaning: 'The audience that tokens must be made for.',
  },
  oidcClientId: {
    name: 'OIDC_CLIENT_ID',
    kind: kind.text,
    unset: 'the one that a refresh token names, if it is a JWT',
    meaning: 'The client under which this manager redeems and revokes the refresh tokens of federated services.',
  },
  oidcClientSecret: {
    name: 'OIDC_CLIENT_SECRET',
    kind: kind.secret,
    unset: 'none: a public client',
    meaning: 'The secret of that client.',
  },
  oidcTokenExchange: {
    name: 'OIDC_TOKEN_EXCHANGE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Make the tokens that are sent to another cluster for that one alone: their audience is its id. Only with issuers ' +
      'that offer token exchange (RFC 8693).',
  },
  usersAdmin: {
    name: 'USERS_ADMIN',
    kind: kind.texts,
    default: '',
    meaning: 'Uids of users who see the whole status and the execution log of the cluster.',
  },
} as const satisfies Settings;
