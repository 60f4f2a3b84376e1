import { type Deadlines, HttpPeer } from './http-peer.ts';
import { Line, type LineOptions } from './line.ts';
import type { Peer, PeerAddress, Peers } from './peer.ts';
import { Transport, type TransportOptions } from './transport.ts';
import { UpstreamPeer } from './upstream-peer.ts';

export interface PeersOptions extends TransportOptions, LineOptions {
  /** This manager as a peer of itself: nobody is dialled. */
  readonly self: Peer;
  readonly isOwn: (endpoint: string) => boolean;
  readonly deadlines?: Deadlines;
}

/** Ways to say other things to the same managers, over the same connections. */
export interface Lines {
  /** `self`: it is this very manager, which is not dialled. */
  lineTo(address: PeerAddress): Line | 'self';
}

/** Users choose addresses: so many are kept at hand, each with its connections. */
const MOST_KEPT = 256;

interface Kept {
  readonly peer: Peer;
  readonly line: Line;
  readonly transport: Transport;
}

/** Peers by their addresses, each with its pool of connections and what is known of how it answers. */
export function createPeers(options: PeersOptions): Peers & Lines & { close(): void } {
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
  const line = new Line(address, transport, options);
  const peer =
    address.kind === 'upstream'
      ? new UpstreamPeer(address, transport, options.deadlines)
      : new HttpPeer(address, line, options.deadlines);
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
