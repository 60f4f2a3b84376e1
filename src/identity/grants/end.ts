import { isRace } from '../../cluster/index.ts';
import { readGrant, type Vault, writeGrant } from './grant.ts';

/**
 * The grant is good for nothing any more: expired, revoked, another user's. Its token is dropped, its services see why, and
 * whoever brings the token again begins anew.
 */
export async function endGrant(id: string, reason: string, vault: Pick<Vault, 'secrets'>): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || record.grant.state === 'ended') return;
    try {
      await writeGrant({ ...record.grant, state: 'ended', reason }, undefined, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
