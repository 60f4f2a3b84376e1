import { decodeJwt } from 'jose';
import type { Secret } from '../../lib/secret.ts';
import type { Grant } from '../grants/grant.ts';
import { ExchangeError } from './errors.ts';

/** Unverified claims of a refresh token. They only select among the issuers and clients that are configured (F9). */
export interface TokenHints {
  readonly issuer?: string;
  readonly client?: string;
}

/** The client id of this manager at an issuer. Without a secret it is a public client. */
export interface OidcClient {
  readonly id: string;
  readonly secret?: Secret | undefined;
}

/** Most refresh tokens are opaque and give no hints; some issuers use JWTs. */
export function readHints(token: Secret): TokenHints {
  try {
    const { iss, azp, client_id } = decodeJwt(token.reveal());
    const client = [azp, client_id].find((each) => typeof each === 'string' && each !== '');
    return { ...(typeof iss === 'string' && { issuer: iss }), ...(typeof client === 'string' && { client }) };
  } catch {
    return {};
  }
}

/** Chooses the issuer to which a refresh token is sent. It is always one of the configured ones. */
export function chooseIssuer<T extends { readonly url: string }>(
  { issuer }: Pick<Grant, 'issuer'>,
  hints: Pick<TokenHints, 'issuer'>,
  configured: readonly T[],
): T {
  const known = (name: string | undefined) => configured.find(({ url }) => url === name);
  if (issuer !== undefined && !known(issuer)) {
    throw new ExchangeError(
      'exchange-refused',
      `the refresh token was issued by ${issuer}, which is no longer accepted here: send one of another issuer, or ask the operator to add it to OIDC_ISSUERS`,
    );
  }
  const chosen = known(issuer) ?? known(hints.issuer) ?? configured[0];
  if (chosen) return chosen;
  throw new ExchangeError(
    'exchange-refused',
    'this cluster cannot use refresh tokens because it has no issuer: ask the operator to set OIDC_ENABLE and OIDC_ISSUERS',
  );
}

/**
 * Chooses the client with which a refresh token is redeemed. A token that names its client is valid for no other
 * (RFC 6749 §10.4); if that is not the configured one, it is treated as a public client, because our secret is not its.
 */
export function chooseClient({ client }: Pick<TokenHints, 'client'>, configured: OidcClient | undefined): OidcClient {
  if (configured && (client === undefined || client === configured.id)) return configured;
  if (client !== undefined) return { id: client };
  throw new ExchangeError(
    'exchange-refused',
    'the refresh token does not name the client it was issued to: ask the operator to set OIDC_CLIENT_ID to that client',
  );
}
