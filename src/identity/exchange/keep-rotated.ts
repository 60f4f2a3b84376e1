import { setTimeout as pause } from 'node:timers/promises';
import type { Secret } from '../../base/secret.ts';
import { isRace } from '../../cluster/index.ts';
import { isAlive, readGrant, type Vault } from '../grants/grant.ts';
import { rotateGrant } from '../grants/rotate.ts';

/** What an issuer gave for the token of a grant. */
export interface Rotation {
  readonly from: Secret;
  /** The same where tokens are good for more than once. */
  readonly to: Secret;
}

/** A race is lost to somebody who joins the grant or leaves it: a request or two to the store. */
const AGAIN_MS = 5;

/**
 * Stores the new token of a grant in place of the one that was exchanged, however often others change the grant meanwhile.
 * `lost` when the grant has ended, or has yet another token: whoever came in between goes on with that one.
 */
export async function keepRotated(id: string, { from, to }: Rotation, vault: Vault): Promise<'kept' | 'lost'> {
  for (;;) {
    const record = await readGrant(id, vault);
    if (!record?.token || !isAlive(record.grant)) return 'lost';
    // Kept by an attempt that was told otherwise. (Where it stays the same, the turn is yet to be ended.)
    if (record.token.equals(to) && !from.equals(to)) return 'kept';
    if (!record.token.equals(from)) return 'lost';
    try {
      await rotateGrant(id, record.version, to, vault);
      return 'kept';
    } catch (error) {
      if (!isRace(error)) throw error;
      await pause(AGAIN_MS * (0.5 + Math.random()));
    }
  }
}
