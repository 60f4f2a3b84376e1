/** Claims of a token or of userinfo, with values of any type. */
export type Claims = Readonly<Record<string, unknown>>;

export interface GroupsSource {
  readonly claims: Claims;
  /**
   * Of the issuer. Identifies the identity federations with their own group formats (docs/go-manager.md#users-and-groups).
   */
  readonly authorizationEndpoint: string;
  /** `OIDC_GROUPS_CLAIM`: the claim to read instead of the usual one, such as `roles` or `realm_access.roles`. */
  readonly groupsClaim?: string | undefined;
}

/**
 * Returns the groups in the claims, or `undefined` if the claims do not mention groups. An empty list means that the
 * user is in no group.
 */
export function readGroups({ claims, authorizationEndpoint, groupsClaim }: GroupsSource): string[] | undefined {
  if (groupsClaim) return stringsIn(claimAt(claims, groupsClaim));
  if (authorizationEndpoint.includes('/realms/egi')) return egiGroups(stringsIn(claims['entitlements']));
  if (authorizationEndpoint.includes('/realms/ai4eosc')) return stringsIn(claimAt(claims, 'realm_access.roles'));
  return stringsIn(claims['group_membership']);
}

const EGI_GROUP = 'urn:mace:egi.eu:group:';

/** `urn:mace:egi.eu:group:vo.example.eu:role=member#aai.egi.eu` → `vo.example.eu`. There is one URN per role. */
function egiGroups(entitlements: string[] | undefined): string[] | undefined {
  const names = entitlements
    ?.map((urn) => urn.toLowerCase())
    .filter((urn) => urn.startsWith(EGI_GROUP))
    .map((urn) => urn.split(':')[4] ?? '')
    .filter((name) => name !== '');
  return names && [...new Set(names)];
}

/** A claim whose name contains dots, such as `https://example.org/groups`, takes precedence over a path. */
function claimAt(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  return path
    .split('.')
    .reduce<unknown>((value, key) => (isClaims(value) && Object.hasOwn(value, key) ? value[key] : undefined), claims);
}

function isClaims(value: unknown): value is Claims {
  return typeof value === 'object' && value !== null;
}

function stringsIn(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.filter((item): item is string => typeof item === 'string' && item !== '');
}
