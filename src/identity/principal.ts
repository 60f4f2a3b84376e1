/**
 * The caller of a request: created by authentication, once per request, and passed on explicitly (S2).
 */
export type Principal = Admin | User | ServiceToken;

/** The administrator of the cluster, authenticated by Basic credentials. */
export interface Admin {
  readonly kind: 'admin';
}

/** A user, authenticated by an access token of one of the configured issuers. */
export interface User {
  readonly kind: 'user';
  /**
   * The name of the user on this cluster: the `sub` of the token, and for users of a further issuer its alias before it
   * (decision 0057). Everything that belongs to a user is stored under it.
   */
  readonly uid: string;
  /** The `iss` of the token. Present if the user was authenticated by a token. */
  readonly issuer?: string;
  /** The `sub` of the token. Present if the user was authenticated by a token. */
  readonly subject?: string;
  /** For display only; no decision depends on it. */
  readonly name: string;
  readonly groups: readonly string[];
  /** Listed in `USERS_ADMIN`: may read the full status and the execution log, nothing more. */
  readonly operator: boolean;
}

/** The holder of a service token: the script, the store that reports events, or anyone who was given the token. */
export interface ServiceToken {
  readonly kind: 'service-token';
  /** The name of the service. */
  readonly service: string;
}
