import type { LedgerMember } from '../../ledger.ts';
import type { Peer, PeerAddress } from '../../peer/peer.ts';
import type { Coordination } from '../coordination.ts';

/** What the ledger keeps of an address. */
export type Place = Pick<LedgerMember, 'clusterId' | 'endpoint' | 'verify' | 'guarded' | 'kind'>;

export const placeOf = ({ clusterId, endpoint, verify, guarded, kind }: PeerAddress): Place => ({
  clusterId,
  endpoint,
  verify,
  guarded,
  kind,
});

/** A cluster that nobody knows yet. */
export const nowhere = (clusterId: string): Place => ({
  clusterId,
  endpoint: '',
  verify: true,
  guarded: true,
  kind: 'oscar',
});

/** Where a member is. A registered cluster may have moved since, and its certification authority is in the registry alone. */
export function addressOf(place: Place, { resolve }: Pick<Coordination, 'resolve'>): PeerAddress {
  const registered = place.guarded ? undefined : resolve(place.clusterId, {});
  return registered && 'address' in registered ? registered.address : placeOf(place);
}

export function peerOf(place: Place, { peers, resolve }: Pick<Coordination, 'peers' | 'resolve'>): Peer {
  return peers.at(addressOf(place, { resolve }));
}
