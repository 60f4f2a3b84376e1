import { isRace } from '../../cluster/index.ts';
import { isAlive, readGrant, type Vault, writeGrant } from './grant.ts';

/**
 * Why the token of a grant cannot be exchanged though it may be good, for whoever looks at its services; undefined when it
 * could be. What stands there already is not written again. A grant that has ended says why itself.
 */
export async function noteRefusal(
  id: string,
  reason: string | undefined,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<void> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || !isAlive(record.grant) || record.grant.refusal?.reason === reason) return;
    const refusal = reason === undefined ? undefined : { reason, since: vault.now() };
    try {
      await writeGrant({ ...record.grant, refusal }, record.token, record.version, vault);
      return;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
