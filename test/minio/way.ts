import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Asked {
  readonly method: string;
  readonly path: string;
}

/** A way to a store on which a test can stand: everything passes, and answers when the test lets them. */
export class Way implements Disposable {
  /** What the answer has for headers. */
  answering: (asked: Asked, headers: http.IncomingHttpHeaders) => http.OutgoingHttpHeaders = (_asked, headers) =>
    headers;
  /** With which status a request is refused before it reaches the store; undefined lets it pass. */
  refusing: (asked: Asked) => number | undefined = () => undefined;
  /** Does the store do what it is asked, and nobody hears of it? */
  losing: (asked: Asked) => boolean = () => false;
  readonly #store: URL;
  readonly #server: http.Server;

  constructor(store: string) {
    this.#store = new URL(store);
    this.#server = http.createServer((request, response) => {
      this.#pass(request, response).catch(() => response.destroy());
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  [Symbol.dispose](): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #pass(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { method = '', url: path = '', headers } = request;
    const { hostname, port } = this.#store;
    const status = this.refusing({ method, path });
    if (status !== undefined) {
      request.resume();
      response.writeHead(status).end();
      return;
    }
    const passed = http.request({ hostname, port, method, path, headers });
    passed.end(await buffer(request));
    const [answer] = (await once(passed, 'response')) as [http.IncomingMessage];
    if (this.losing({ method, path })) {
      answer.resume();
      response.destroy();
      return;
    }
    response.writeHead(answer.statusCode ?? 500, this.answering({ method, path }, answer.headers));
    answer.pipe(response);
  }
}

/**
 * The store says that it is so much later, when it is asked what time it is. Elsewhere its date is compared with others of
 * it, and stays.
 */
export function setAhead(way: Way, aheadMs: number): void {
  way.answering = ({ method, path }, headers) => {
    if (method !== 'HEAD' || path !== '/oscar-staging') return headers;
    return { ...headers, date: new Date(Date.parse(headers.date ?? '') + aheadMs).toUTCString() };
  };
}
