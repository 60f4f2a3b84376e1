import { HttpOrigin } from '../client/http-origin.ts';
import { type Deadlines, HttpPeer } from '../client/http-peer.ts';
import { HttpTarget } from '../client/http-target.ts';
import { PeerConnection, type PeerConnectionOptions } from '../connection/peer-connection.ts';
import { Transport, type TransportOptions } from '../connection/transport.ts';
import type { Origin, Target } from '../delegation-ports.ts';
import { type UpstreamDeadlines, UpstreamPeer } from '../go/upstream-peer.ts';
import { UpstreamTarget } from '../go/upstream-target.ts';
import type { Peer, PeerAddress, Peers } from '../peer.ts';

export interface PeersOptions extends TransportOptions, PeerConnectionOptions {
  /** This manager as a peer of itself: nobody is dialled. */
  readonly self: Peer;
  readonly isOwn: (endpoint: string) => boolean;
  /** Of managers of ours, and of those that are written in Go. */
  readonly deadlines?: { readonly oscar?: Deadlines; readonly upstream?: UpstreamDeadlines };
}

/** Ways to say other things to the same managers, over the same connections. */
export interface PeerConnections {
  /** `self`: it is this very manager, which is not dialled. */
  lineTo(address: PeerAddress): PeerConnection | 'self';
}

/** Users choose addresses: so many are kept at hand, each with its connections. */
const MOST_KEPT = 256;

interface Kept {
  readonly peer: Peer;
  readonly line: PeerConnection;
  readonly transport: Transport;
}

/** Peers by their addresses, each with its pool of connections and what is known of how it answers. */
export function createPeers(options: PeersOptions): Peers & PeerConnections & { close(): void } {
  const kept = new Map<string, Kept>();
  const keep = (address: PeerAddress): Kept => {
    const name = nameOf(address);
    const known = kept.get(name) ?? make(address, options);
    // The one that was asked for last is forgotten last.
    kept.delete(name);
    kept.set(name, known);
    forgetIdle(kept);
    return known;
  };
  return {
    at: (address) => (options.isOwn(address.endpoint) ? options.self : keep(address).peer),
    lineTo: (address) => (options.isOwn(address.endpoint) ? 'self' : keep(address).line),
    close() {
      for (const { transport } of kept.values()) transport.close();
      kept.clear();
    },
  };
}

function make(address: PeerAddress, options: PeersOptions): Kept {
  const transport = new Transport(address, options);
  const line = new PeerConnection(address, transport, options);
  const peer =
    address.kind === 'upstream'
      ? new UpstreamPeer(address, transport, options.deadlines?.upstream)
      : new HttpPeer(address, line, options.deadlines?.oscar);
  return { peer, line, transport };
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

/** How other managers are spoken to about jobs, by their addresses. */
export interface PeerClients {
  targetAt(address: PeerAddress): Target;
  originAt(address: PeerAddress): Origin;
}

export function peerClients(
  lines: PeerConnections,
  self: { readonly target: Target; readonly origin: Origin },
): PeerClients {
  return {
    targetAt(address) {
      const line = lines.lineTo(address);
      if (line === 'self') return self.target;
      return address.kind === 'upstream' ? new UpstreamTarget(address, line) : new HttpTarget(address, line);
    },
    originAt(address) {
      const line = lines.lineTo(address);
      return line === 'self' ? self.origin : new HttpOrigin(address, line);
    },
  };
}
