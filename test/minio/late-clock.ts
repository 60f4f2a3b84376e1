import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/**
 * A way to a store that tells its own time as the test sets it, and passes on everything else. The sweep looks only at
 * objects that are minutes old by the clock of the store, and no test waits for that.
 */
export class LateClock implements Disposable {
  aheadMs = 0;
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
    const passed = http.request({ hostname, port, method, path, headers });
    passed.end(await buffer(request));
    const [answer] = (await once(passed, 'response')) as [http.IncomingMessage];
    // That is how it is asked for its time. Elsewhere the date is compared with others of the store.
    const asksTime = method === 'HEAD' && path === '/oscar-staging';
    const date = new Date(Date.parse(answer.headers.date ?? '') + this.aheadMs).toUTCString();
    response.writeHead(answer.statusCode ?? 500, { ...answer.headers, ...(asksTime && { date }) });
    answer.pipe(response);
  }
}
