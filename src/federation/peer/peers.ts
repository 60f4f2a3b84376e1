import { HttpPeer, type HttpPeerOptions } from './http-peer.ts';
import type { Peer, PeerAddress, Peers } from './peer.ts';
import { Transport, type TransportOptions } from './transport.ts';
import { type CredentialOf, UpstreamPeer } from './upstream-peer.ts';

export interface PeersOptions extends TransportOptions, HttpPeerOptions {
  /** This manager as a peer of itself: nobody is dialled. */
  readonly self: Peer;
  readonly isOwn: (endpoint: string) => boolean;
  readonly credentialOf?: CredentialOf;
}

/** Users choose addresses: so many are kept at hand, each with its connections. */
const MOST_KEPT = 256;

interface Kept {
  readonly peer: Peer;
  readonly transport: Transport;
}

/** Peers by their addresses, each with its pool of connections and what is known of how it answers. */
export function createPeers(options: PeersOptions): Peers & { close(): void } {
  const kept = new Map<string, Kept>();
  return {
    at(address) {
      if (options.isOwn(address.endpoint)) return options.self;
      const name = nameOf(address);
      const known = kept.get(name) ?? make(address, options);
      // The one that was asked for last is forgotten last.
      kept.delete(name);
      kept.set(name, known);
      forgetIdle(kept);
      return known.peer;
    },
    close() {
      for (const { transport } of kept.values()) transport.close();
      kept.clear();
    },
  };
}

function make(address: PeerAddress, options: PeersOptions): Kept {
  const transport = new Transport(address, options);
  const peer =
    address.kind === 'upstream'
      ? new UpstreamPeer(address, transport, options)
      : new HttpPeer(address, transport, options);
  return { peer, transport };
}

function forgetIdle(kept: Map<string, Kept>): void {
  for (const [name, { transport }] of kept) {
    if (kept.size <= MOST_KEPT) return;
    if (transport.isBusy) continue;
    transport.close();
    kept.delete(name);
  }
}

const nameOf = ({ clusterId, endpoint, verify, ca, guarded, kind }: PeerAddress) =>
  JSON.stringify([clusterId, endpoint, verify, ca, guarded, kind]);
