import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { readStorageEvents, type StorageEvent } from '../../src/model/job/index.ts';
import { EVENTS_TOKEN } from './minio.ts';

/** A webhook that only records the events that it receives, by path. */
export class Hook {
  readonly #server: Server;
  readonly #events: { readonly path: string; readonly event: StorageEvent; readonly sequencer: string }[] = [];

  constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response));
  }

  async listen(): Promise<string> {
    // If MinIO could not start, the hook is not closed; it must not keep the tests from ending.
    this.#server.listen(0, '127.0.0.1').unref();
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The events of a path, each once, ordered by the time of the object. */
  events(path: string): StorageEvent[] {
    const found = new Map(
      this.#events
        .filter((each) => each.path === path)
        .map(({ event, sequencer }) => [`${event.bucket}/${event.key} ${sequencer}`, { event, sequencer }]),
    );
    return [...found.values()].toSorted((a, b) => (a.sequencer < b.sequencer ? -1 : 1)).map(({ event }) => event);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    const trusted = request.headers.authorization === `Bearer ${EVENTS_TOKEN}`;
    if (trusted && body.length > 0) this.#note(request.url ?? '', JSON.parse(body.toString()));
    response.writeHead(trusted ? 200 : 401).end();
  }

  #note(path: string, body: { Records?: { s3: { object: { sequencer: string } } }[] }): void {
    const sequencer = body.Records?.[0]?.s3.object.sequencer ?? '';
    for (const event of readStorageEvents(body)) this.#events.push({ path, event, sequencer });
  }
}
