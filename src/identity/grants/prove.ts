import { isRace } from '../../cluster/index.ts';
import { endGrant } from './end.ts';
import { isAlive, readGrant, type Vault, writeGrant } from './grant.ts';

/** Whose tokens an exchange gave. */
export interface Proof {
  readonly issuer: string;
  readonly subject: string;
}

/**
 * Compares what the first exchange says with who brought the token. A difference ends the grant; says whether the tokens of
 * that exchange may be used.
 */
export async function proveGrant(
  id: string,
  { issuer, subject }: Proof,
  vault: Pick<Vault, 'secrets' | 'now'>,
): Promise<boolean> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record || !isAlive(record.grant)) return false;
    const { grant, token, version } = record;
    const isSame = subject === (grant.subject ?? grant.owner) && issuer === (grant.issuer ?? issuer);
    if (grant.local || !isSame) {
      await endGrant(id, "another user's token", vault);
      return false;
    }
    if (grant.state === 'proven') return true;
    try {
      await writeGrant({ ...grant, issuer, subject, state: 'proven' }, token, version, vault);
      return true;
    } catch (error) {
      if (!isRace(error)) throw error;
    }
  }
}
