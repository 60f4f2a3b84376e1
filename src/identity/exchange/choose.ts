import { decodeJwt } from 'jose';
import type { Secret } from '../../lib/secret.ts';
import type { Grant } from '../grants/grant.ts';
import { ExchangeError } from './errors.ts';

/** What a refresh token says about itself. Unverified: it chooses among what the operator has set, and nothing else (F9). */
export interface TokenHints {
  readonly issuer?: string;
  readonly client?: string;
}

/** As whom this manager goes to an issuer. Without a secret it is a public client. */
export interface OidcClient {
  readonly id: string;
  readonly secret?: Secret | undefined;
}

/** Most refresh tokens say nothing: only some issuers make them JWTs. */
export function readHints(token: Secret): TokenHints {
  try {
    const { iss, azp, client_id } = decodeJwt(token.reveal());
    const client = [azp, client_id].find((each) => typeof each === 'string' && each !== '');
    return { ...(typeof iss === 'string' && { issuer: iss }), ...(typeof client === 'string' && { client }) };
  } catch {
    return {};
  }
}

/** The issuer that a refresh token is shown to: always one of those that are configured. */
export function chooseIssuer<T extends { readonly url: string }>(
  { issuer }: Pick<Grant, 'issuer'>,
  hints: Pick<TokenHints, 'issuer'>,
  configured: readonly T[],
): T {
  const known = (name: string | undefined) => configured.find(({ url }) => url === name);
  if (issuer !== undefined && !known(issuer)) {
    throw new ExchangeError(
      'exchange-refused',
      `the refresh token is of ${issuer}, which is not accepted here any more: bring one of another issuer, or ask the operator to list it in OIDC_ISSUERS`,
    );
  }
  const chosen = known(issuer) ?? known(hints.issuer) ?? configured[0];
  if (chosen) return chosen;
  throw new ExchangeError(
    'exchange-refused',
    'this cluster has no issuer, and so cannot use refresh tokens: ask the operator to set OIDC_ENABLE and OIDC_ISSUERS',
  );
}

/**
 * The client that a refresh token is of. One that names its client is good for no other (RFC 6749 §10.4); if that is not
 * the configured one, whose secret would be wrong, it can only be a public one.
 */
export function chooseClient({ client }: Pick<TokenHints, 'client'>, configured: OidcClient | undefined): OidcClient {
  if (configured && (client === undefined || client === configured.id)) return configured;
  if (client !== undefined) return { id: client };
  throw new ExchangeError(
    'exchange-refused',
    'the refresh token does not say which client it was made for: ask the operator to set OIDC_CLIENT_ID to that client',
  );
}
