import { IdentityError } from './errors.ts';

export interface VoRequest {
  /** `vo` of the submitted definition; an empty text counts as absent. */
  readonly requested?: string | undefined;
  readonly userGroups: readonly string[];
  /** `OIDC_GROUPS`; an empty list admits every user. */
  readonly allowedGroups: readonly string[];
  /** For an update: `vo` of the stored service. */
  readonly previous?: string | undefined;
}

/**
 * Chooses the virtual organisation of a user's service (docs/go-manager.md#users-and-groups).
 *
 * @throws {IdentityError} `vo-refused`
 */
export function chooseVo({ requested = '', userGroups, allowedGroups, previous }: VoRequest): { vo: string } {
  // An update without `vo`, or with the same one, keeps it, even if the owner has left that group (R30).
  if (previous !== undefined && (requested === '' || requested === previous)) return { vo: previous };

  if (requested !== '') {
    if (!allowedGroups.includes(requested) || userGroups.includes(requested)) return { vo: requested };
    throw new IdentityError('vo-refused', `you are not a member of "${requested}": omit vo, or use one of your groups`);
  }

  if (allowedGroups.length === 0) return { vo: '' };
  const first = allowedGroups.find((group) => userGroups.includes(group));
  if (first !== undefined) return { vo: first };
  throw new IdentityError(
    'vo-refused',
    `you are in none of the groups of this cluster (${allowedGroups.join(', ')}): set vo to your virtual organisation`,
  );
}
