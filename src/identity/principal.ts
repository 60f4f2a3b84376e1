/**
 * Who makes a request: one object per request, made by authentication and handed on; nothing else says who is asking
 * (S2).
 */
export type Principal = Admin | User | ServiceToken;

/** The cluster's administrator, by Basic credentials. */
export interface Admin {
  readonly kind: 'admin';
}

/** A person, by an access token of one of the configured issuers. */
export interface User {
  readonly kind: 'user';
  /** The `sub` of the token. */
  readonly uid: string;
  /** The `iss` of the token. Known of everybody who brought one. */
  readonly issuer?: string;
  /** For people to read; nothing is decided by it. */
  readonly name: string;
  readonly groups: readonly string[];
  /** Listed in `USERS_ADMIN`: sees the whole status and the execution log, nothing more. */
  readonly operator: boolean;
}

/** Whoever holds the token of one service: its script, its storage events, those it was given to. */
export interface ServiceToken {
  readonly kind: 'service-token';
  /** The name of that service. */
  readonly service: string;
}
