import type { IncomingMessage, Server } from 'node:http';
import { BlockList, isIP, isIPv4, type Socket } from 'node:net';
import type { Network } from './allowed-address.ts';

export interface ConnectionLimits {
  /** Open connections of all clients together. */
  readonly total: number;
  /** Open connections of one address; those of trusted proxies are not counted. */
  readonly perAddress: number;
  /**
   * Open connections of all peers together, apart from the others: clients that use up `total` do not keep peers out. More
   * than that, and those of one peer above `perAddress`, count like the connections of other clients.
   */
  readonly peers?: number;
  /** Proxies whose `X-Forwarded-For` names the client. */
  readonly proxies: readonly Network[];
}

/** A raw response, because no request has been read. */
const TOO_MANY =
  'HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-type: text/plain\r\n' +
  'content-length: 37\r\n\r\ntoo many connections: try again later';

/**
 * How long an address is that of a peer after a request of the peer was verified. Shorter: a peer that was away loses its own
 * limit. Longer: a client that has got the address meanwhile uses it.
 */
const PEER_LIFETIME_MS = 10 * 60_000;

/** A federation has at most some hundred members. */
const MAX_PEER_ADDRESSES = 1_024;

interface ConnectionLimiter {
  /** Tells it that the request of a peer arrived on this connection and was verified. */
  readonly recognizePeer: (socket: Socket) => void;
}

/**
 * Rejects connections above the limits with 503, before anything is read from them. So a peer is recognized by its address,
 * from which it has sent a verified request before.
 */
export function limitConnections(
  server: Server,
  { total, perAddress, peers = 0, proxies }: ConnectionLimits,
  now: () => number = () => performance.now(),
): ConnectionLimiter {
  const isProxy = addressMatcher(proxies);
  const clients = new ConnectionCount();
  const ofPeers = new ConnectionCount();
  const peerAddresses = new Map<string, number>();
  const countOf = new WeakMap<Socket, ConnectionCount>();
  const isPeer = (address: string) => (peerAddresses.get(address) ?? Number.NEGATIVE_INFINITY) > now();
  const hasRoomForPeer = (address: string) => ofPeers.total < peers && ofPeers.of(address) < perAddress;

  server.on('connection', (socket: Socket) => {
    const address = plainAddress(socket.remoteAddress);
    const count = isPeer(address) && hasRoomForPeer(address) ? ofPeers : clients;
    const isAbove = clients.total >= total || (clients.of(address) >= perAddress && !isProxy(address));
    if (count === clients && isAbove) {
      // A client that sends nothing but keeps reading would otherwise hold the connection.
      socket.on('error', () => {}).end(TOO_MANY, () => socket.destroy());
      return;
    }
    count.add(address);
    countOf.set(socket, count);
    socket.once('close', () => countOf.get(socket)?.remove(address));
  });

  return {
    recognizePeer(socket) {
      const address = plainAddress(socket.remoteAddress);
      // Other clients have the address of the proxy too.
      if (peers === 0 || socket.destroyed || isProxy(address)) return;
      peerAddresses.delete(address);
      peerAddresses.set(address, now() + PEER_LIFETIME_MS);
      const [oldest] = peerAddresses.keys();
      if (peerAddresses.size > MAX_PEER_ADDRESSES && oldest !== undefined) peerAddresses.delete(oldest);
      if (countOf.get(socket) !== clients || !hasRoomForPeer(address)) return;
      clients.remove(address);
      ofPeers.add(address);
      countOf.set(socket, ofPeers);
    },
  };
}

/** Open connections, in total and of each address. */
class ConnectionCount {
  readonly #addresses = new Counter<string>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(address: string): number {
    return this.#addresses.get(address);
  }

  add(address: string): void {
    this.#total++;
    this.#addresses.add(address);
  }

  remove(address: string): void {
    this.#total--;
    this.#addresses.remove(address);
  }
}

/** Finds the address of a client: the last one in `X-Forwarded-For` that no trusted proxy has, if a proxy sent the request. */
export function clientAddressFinder(proxies: readonly Network[]): (request: IncomingMessage) => string {
  const isProxy = addressMatcher(proxies);
  return ({ socket, headers }) => {
    const direct = plainAddress(socket.remoteAddress);
    if (!isProxy(direct)) return direct;
    const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',').split(',');
    const client = forwarded.map((each) => plainAddress(each.trim())).findLast((each) => !isProxy(each));
    return client !== undefined && isIP(client) !== 0 ? client : direct;
  };
}

/** How many there are of each key. */
export class Counter<K> {
  readonly #counts = new Map<K, number>();

  /** How many keys there are. */
  get size(): number {
    return this.#counts.size;
  }

  get(key: K): number {
    return this.#counts.get(key) ?? 0;
  }

  add(key: K): void {
    this.#counts.set(key, this.get(key) + 1);
  }

  remove(key: K): void {
    const rest = this.get(key) - 1;
    if (rest > 0) this.#counts.set(key, rest);
    else this.#counts.delete(key);
  }
}

/** An IPv4 client of a server that listens on IPv6 has an address such as `::ffff:10.0.0.5`. */
const plainAddress = (address = '') => (/^::ffff:[\d.]+$/i.test(address) ? address.slice(7) : address);

function addressMatcher(networks: readonly Network[]): (address: string) => boolean {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const { address, prefix, family } of networks) lists[family].addSubnet(address, prefix, family);
  return (address) => {
    if (isIP(address) === 0) return false;
    const family = isIPv4(address) ? 'ipv4' : 'ipv6';
    return lists[family].check(address, family);
  };
}
