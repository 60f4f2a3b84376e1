import { once } from 'node:events';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
  request as send,
} from 'node:http';
import { listenAt, listenLastingly } from './lasting-port.ts';

/** A request as the proxy received it. */
export interface Seen {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The answer, once it is complete. */
  answer?: { readonly status: number; readonly headers: IncomingHttpHeaders; readonly body: string };
}

/** Handles a request instead of forwarding it. */
export type Interference = (seen: Seen, response: ServerResponse, passOn: () => Promise<void>) => void | Promise<void>;

/** An HTTP proxy in front of a server that records all requests and can simulate faults. */
export interface Wire extends AsyncDisposable {
  readonly url: string;
  readonly seen: readonly Seen[];
  /** Applies until it is called again without an argument. */
  interfere(how?: Interference): void;
  /** Stops listening. */
  cut(): Promise<void>;
  /** Listens again at the same address. */
  mend(): Promise<void>;
}

/** Starts a proxy in front of a server. Without a server, only the interference answers. */
export async function startWire(target?: () => string): Promise<Wire> {
  const seen: Seen[] = [];
  let interference: Interference | undefined;
  const server = createServer((request, response) => void handle(request, response));

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { method = '', url = '', headers } = request;
    const one: Seen = { method, path: url, headers, body: Buffer.concat(chunks).toString() };
    seen.push(one);
    const passOn = () => relay(one, target?.() ?? '', response);
    await (interference ? interference(one, response, passOn) : passOn());
  }

  async function cut(): Promise<void> {
    if (!server.listening) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }

  const port = await listenLastingly(server);
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    interfere: (how) => {
      interference = how;
    },
    cut,
    mend: () => listenAt(server, port),
    [Symbol.asyncDispose]: cut,
  };
}

/** The client may have disconnected before the answer arrives. */
async function relay(seen: Seen, target: string, response: ServerResponse): Promise<void> {
  const { method, path, headers, body } = seen;
  const { promise, resolve } = Promise.withResolvers<void>();
  const chunks: Buffer[] = [];
  const sent = send(`${target}${path}`, { method, headers: { ...headers, connection: 'close' } }, (answer) => {
    const { statusCode: status = 500 } = answer;
    if (!response.destroyed) response.writeHead(status, answer.headers);
    answer.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      if (!response.destroyed) response.write(chunk);
    });
    answer.on('end', () => {
      seen.answer = { status, headers: answer.headers, body: Buffer.concat(chunks).toString() };
      response.end();
    });
    answer.on('close', resolve);
  });
  sent.on('error', () => {
    response.destroy();
    resolve();
  });
  sent.end(body);
  await promise;
}
