import { IdentityError } from './errors.ts';

export interface VoRequest {
  /** `vo` of the definition that was sent; blank is the same as absent. */
  readonly requested?: string | undefined;
  readonly userGroups: readonly string[];
  /** `OIDC_GROUPS`; empty admits everybody. */
  readonly allowedGroups: readonly string[];
  /** `vo` of the service as stored, when this is an update. */
  readonly previous?: string | undefined;
}

/**
 * The virtual organisation that a user's service is kept under (docs/go-manager.md#users-and-groups).
 *
 * @throws {IdentityError} `vo-refused`
 */
export function chooseVo({ requested: asked = '', userGroups, allowedGroups, previous }: VoRequest): { vo: string } {
  // An update that does not mention it, or repeats it, leaves it alone, even if the owner has left that group (R30).
  if (previous !== undefined && (asked === '' || asked === previous)) return { vo: previous };

  if (asked !== '') {
    if (!allowedGroups.includes(asked) || userGroups.includes(asked)) return { vo: asked };
    throw new IdentityError(
      'vo-refused',
      `you are not a member of "${asked}": leave out vo, or name one of your groups`,
    );
  }

  if (allowedGroups.length === 0) return { vo: '' };
  const first = allowedGroups.find((group) => userGroups.includes(group));
  if (first !== undefined) return { vo: first };
  throw new IdentityError(
    'vo-refused',
    `you are in none of the groups of this cluster (${allowedGroups.join(', ')}): name your organisation under vo`,
  );
}
