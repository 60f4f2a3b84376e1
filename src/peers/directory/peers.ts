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
  /** This manager as a peer of itself, without HTTP. */
  readonly self: Peer;
  readonly isOwn: (endpoint: string) => boolean;
  /** `oscar`: managers like this one. `upstream`: managers written in Go. */
  readonly deadlines?: { readonly oscar?: Deadlines; readonly upstream?: UpstreamDeadlines };
}

/** Gives other protocols the same connections to the same managers. */
export interface PeerConnections {
  /** `self` if the address is this manager, which is not dialled. */
  connectionTo(address: PeerAddress): PeerConnection | 'self';
}

/** Users choose addresses, so the cache is bounded. A smaller value reconnects more often; a larger one holds more idle sockets. */
const MAX_PEERS = 256;

interface PeerEntry {
  readonly peer: Peer;
  readonly connection: PeerConnection;
  readonly transport: Transport;
}

/** Peers by their addresses, each with its connection pool and its circuit breaker. */
export function createPeers(options: PeersOptions): Peers & PeerConnections & { close(): void } {
  const kept = new Map<string, PeerEntry>();
  const keep = (address: PeerAddress): PeerEntry => {
    const name = cacheKey(address);
    const known = kept.get(name) ?? createEntry(address, options);
    // Least recently used first.
    kept.delete(name);
    kept.set(name, known);
    evictIdle(kept);
    return known;
  };
  return {
    at: (address) => (options.isOwn(address.endpoint) ? options.self : keep(address).peer),
    connectionTo: (address) => (options.isOwn(address.endpoint) ? 'self' : keep(address).connection),
    close() {
      for (const { transport } of kept.values()) transport.close();
      kept.clear();
    },
  };
}

function createEntry(address: PeerAddress, options: PeersOptions): PeerEntry {
  const transport = new Transport(address, options);
  const connection = new PeerConnection(address, transport, options);
  const peer =
    address.kind === 'upstream'
      ? new UpstreamPeer(address, transport, options.deadlines?.upstream)
      : new HttpPeer(address, connection, options.deadlines?.oscar);
  return { peer, connection: connection, transport };
}

function evictIdle(kept: Map<string, PeerEntry>): void {
  for (const [name, { transport }] of kept) {
    if (kept.size <= MAX_PEERS) return;
    if (transport.isBusy) continue;
    transport.close();
    kept.delete(name);
  }
}

const cacheKey = ({ clusterId, endpoint, verify, ca, guarded, kind }: PeerAddress) =>
  JSON.stringify([clusterId, endpoint, verify, ca, guarded, kind]);

/** Clients of other managers for jobs, by their addresses. */
export interface PeerClients {
  targetAt(address: PeerAddress): Target;
  originAt(address: PeerAddress): Origin;
}

export function peerClients(
  connections: PeerConnections,
  self: { readonly target: Target; readonly origin: Origin },
): PeerClients {
  return {
    targetAt(address) {
      const connection = connections.connectionTo(address);
      if (connection === 'self') return self.target;
      return address.kind === 'upstream'
        ? new UpstreamTarget(address, connection)
        : new HttpTarget(address, connection);
    },
    originAt(address) {
      const connection = connections.connectionTo(address);
      return connection === 'self' ? self.origin : new HttpOrigin(address, connection);
    },
  };
}
