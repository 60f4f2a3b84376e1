/** Claims of a token or of userinfo: whatever the issuer put there. */
export type Claims = Readonly<Record<string, unknown>>;

export interface GroupsSource {
  readonly claims: Claims;
  /**
   * Of the issuer; tells the federations apart that name groups in their own way (docs/go-manager.md#users-and-groups).
   */
  readonly authorizationEndpoint: string;
  /** The claim the operator names, instead of the one we would look for: `roles`, `realm_access.roles`. */
  readonly groupsClaim?: string | undefined;
}

/**
 * The groups that claims carry, or `undefined` if they say nothing about groups. An empty list does say something:
 * this person is in none.
 */
export function readGroups({ claims, authorizationEndpoint, groupsClaim }: GroupsSource): string[] | undefined {
  if (groupsClaim) return texts(at(claims, groupsClaim));
  if (authorizationEndpoint.includes('/realms/egi')) return egiGroups(texts(claims['entitlements']));
  if (authorizationEndpoint.includes('/realms/ai4eosc')) return texts(at(claims, 'realm_access.roles'));
  return texts(claims['group_membership']);
}

const EGI_GROUP = 'urn:mace:egi.eu:group:';

/** `urn:mace:egi.eu:group:vo.example.eu:role=member#aai.egi.eu` → `vo.example.eu`. One urn per role: names repeat. */
function egiGroups(entitlements: string[] | undefined): string[] | undefined {
  const names = entitlements
    ?.map((urn) => urn.toLowerCase())
    .filter((urn) => urn.startsWith(EGI_GROUP))
    .map((urn) => urn.split(':')[4] ?? '')
    .filter((name) => name !== '');
  return names && [...new Set(names)];
}

/** A claim whose own name has dots, such as `https://example.org/groups`, comes before a path. */
function at(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  return path
    .split('.')
    .reduce<unknown>((value, key) => (isClaims(value) && Object.hasOwn(value, key) ? value[key] : undefined), claims);
}

function isClaims(value: unknown): value is Claims {
  return typeof value === 'object' && value !== null;
}

function texts(value: unknown): string[] | undefined {
  if (!Array.isArray(value)) return undefined;
  return value.filter((item): item is string => typeof item === 'string' && item !== '');
}
