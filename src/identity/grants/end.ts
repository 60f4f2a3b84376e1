import type { Secret } from '../../base/secret.ts';
import { isRace } from '../../cluster/index.ts';
import { readGrant, type Vault, writeGrant } from './grant.ts';

/**
 * The grant is good for nothing any more: expired, revoked, another user's. Its token is dropped, its services see why, and
 * whoever brings the token again begins anew. With `refused` only if that is the token it still has.
 */
export async function endGrant(
  id: string,
  reason: string,
  vault: Pick<Vault, 'secrets' | 'now'>,
  refused?: Secret,
): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || record.grant.state === 'ended') return;
    if (refused && !record.token?.equals(refused)) return;
    const ended = { ...record.grant, state: 'ended', reason, endedAt: vault.now(), turn: undefined } as const;
    try {
      await writeGrant(ended, undefined, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
