import { PeerError } from '../../peer/peer.ts';
import type { Result } from '../results.ts';

/** Its owner has ended a member there. */
export const leftByOwner = (keyId: string): Result => ({
  keyId,
  kind: 'left',
  problem: new PeerError('gone', 'its owner ended it there: add it again to have it back'),
});
