import { createServer } from 'node:http';
import { WARM_PATHS } from './layout.ts';

/** Tells the kubelet how far the script is: 503 until it is so, 200 from then on. */
export class Probe implements Disposable {
  /** `GET /begun`. */
  begun = false;
  /** `GET /`. */
  ended = false;
  readonly #server = createServer(({ url }, response) => response.writeHead(this.#is(url) ? 200 : 503).end());

  /** Somebody in the pod may have taken the port: then nobody tells. */
  listen(port: number, failed: (error: Error) => void): void {
    if (!this.#server.listening) this.#server.on('error', failed).listen(port);
  }

  [Symbol.dispose](): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #is(url: string | undefined): boolean {
    if (url === WARM_PATHS.up) return true;
    return url === WARM_PATHS.begun ? this.begun : this.ended;
  }
}
