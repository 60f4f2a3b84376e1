import type { Fetch } from './bounded-fetch.ts';

/** What we need to know of an issuer, from its metadata. */
export interface Metadata {
  readonly authorizationEndpoint: string;
  readonly jwksUri: string;
  readonly userinfoEndpoint: string | undefined;
  /** All of it, as it was told. */
  readonly told: Readonly<Record<string, unknown>> & { readonly issuer: string };
}

/**
 * Reads the metadata of an issuer (OpenID Connect Discovery 1.0 §4). The issuer named inside must be the very string
 * that was configured (§4.3), or whoever answers there could speak for another.
 */
export async function discover(issuer: string, fetch: Fetch): Promise<Metadata> {
  const response = await fetch(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  if (response.status !== 200) throw new Error(`its metadata was answered with ${response.status}`);

  const metadata: unknown = await response.json();
  if (!isRecord(metadata)) throw new Error('its metadata is not an object');
  if (metadata['issuer'] !== issuer) {
    throw new Error(
      `its metadata is that of ${JSON.stringify(metadata['issuer'])}: configure the issuer by this very name`,
    );
  }
  const jwksUri = metadata['jwks_uri'];
  if (!isUrl(jwksUri)) throw new Error('its metadata has no jwks_uri');

  const [authorization, userinfo] = [metadata['authorization_endpoint'], metadata['userinfo_endpoint']];
  return {
    authorizationEndpoint: isUrl(authorization) ? authorization : '',
    jwksUri,
    userinfoEndpoint: isUrl(userinfo) ? userinfo : undefined,
    told: { ...metadata, issuer },
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isUrl(value: unknown): value is string {
  return typeof value === 'string' && URL.canParse(value);
}
