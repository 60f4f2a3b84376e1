import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { PeerConnection } from '../connection/peer-connection.ts';
import { Transport } from '../connection/transport.ts';
import type { PeerAddress } from '../peer.ts';

export interface Heard {
  readonly method: string;
  readonly url: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

export interface Said {
  readonly status: number;
  readonly json?: unknown;
  readonly text?: string;
}

/** A server that answers what a test says, and a connection to it. Undefined: it never answers. */
export async function listen(
  t: Pick<TestContext, 'after'>,
  answer: (heard: Heard) => Said | undefined,
  kind: PeerAddress['kind'] = 'oscar',
) {
  const requests: Heard[] = [];
  const respond = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const { method = '', url = '', headers } = request;
    const heard = { method, url, headers, body: Buffer.concat(await request.toArray()).toString() };
    requests.push(heard);
    const said = answer(heard);
    if (!said) return;
    if (said.json !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
    response.writeHead(said.status).end(said.json === undefined ? said.text : JSON.stringify(said.json));
  };
  const server = http.createServer((request, response) => void respond(request, response));
  // What is forgotten stays open, so that it can be counted.
  server.keepAliveTimeout = 0;
  /** The connections to it: how many were dialled, and how many there are. */
  const sockets = { dialled: 0, open: 0 };
  server.on('connection', (socket) => {
    sockets.dialled++;
    sockets.open++;
    socket.once('close', () => sockets.open--);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const address: PeerAddress = { clusterId: 'b', endpoint, verify: true, guarded: false, kind };
  const transport = new Transport(address, { networks: [] });
  t.after(() => {
    transport.close();
    server.closeAllConnections();
    server.close();
  });
  return { endpoint, address, requests, transport, connection: new PeerConnection(address, transport), sockets };
}
