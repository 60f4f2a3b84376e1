import type { IncomingMessage, Server } from 'node:http';
import { BlockList, isIP, isIPv4, type Socket } from 'node:net';
import type { Network } from './allowed-address.ts';

export interface ConnectionLimits {
  /** Open connections of all clients together. */
  readonly total: number;
  /** Open connections of one address; those of trusted proxies are not counted. */
  readonly perAddress: number;
  /** Proxies whose `X-Forwarded-For` names the client. */
  readonly proxies: readonly Network[];
}

/** A raw response, because no request has been read. */
const TOO_MANY =
  'HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-type: text/plain\r\n' +
  'content-length: 37\r\n\r\ntoo many connections: try again later';

/** Rejects connections above the limits with 503, before anything is read from them. */
export function limitConnections(server: Server, { total, perAddress, proxies }: ConnectionLimits): void {
  const isProxy = addressMatcher(proxies);
  const open = new Counter<string>();
  let count = 0;
  server.on('connection', (socket: Socket) => {
    const address = plainAddress(socket.remoteAddress);
    if (count >= total || (open.get(address) >= perAddress && !isProxy(address))) {
      // A client that sends nothing but keeps reading would otherwise hold the connection.
      socket.on('error', () => {}).end(TOO_MANY, () => socket.destroy());
      return;
    }
    count++;
    open.add(address);
    socket.once('close', () => {
      count--;
      open.remove(address);
    });
  });
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
