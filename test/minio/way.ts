import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export interface Asked {
  readonly method: string;
  readonly path: string;
}

/** A proxy in front of a store. It forwards everything, and holds answers back as the test wants. */
export class Way implements Disposable {
  /** The headers of the answer. */
  answering: (asked: Asked, headers: http.IncomingHttpHeaders) => http.OutgoingHttpHeaders = (_asked, headers) =>
    headers;
  /** The status with which a request is rejected before it reaches the store; undefined forwards it. */
  refusing: (asked: Asked) => number | undefined = () => undefined;
  /** Whether the store executes the request and its answer is lost. */
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
 * Shifts the clock that the store reports when it is asked for the time. Dates in other answers are compared with each
 * other only, and stay.
 */
export function setAhead(way: Way, aheadMs: number): void {
  way.answering = ({ method, path }, headers) => {
    if (method !== 'HEAD' || path !== '/oscar-staging') return headers;
    return { ...headers, date: new Date(Date.parse(headers.date ?? '') + aheadMs).toUTCString() };
  };
}
