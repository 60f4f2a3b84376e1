import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { HttpClient } from '../../../lib/http/index.ts';
import { Api } from '../client/api.ts';
import type { KubeObject, Stored } from '../client/kinds.ts';

/** What happens to a request: it is lost, it is executed and its answer is lost, or it is rejected. */
export type Fault = 'away' | 'unanswered' | { readonly status: number; readonly message: string };

interface Watch {
  readonly path: string;
  readonly selector: string;
  readonly response: ServerResponse;
}

/** Parses `/api/v1/namespaces/x/secrets/y`: the kind in its namespace or in all namespaces, and the name. */
const PATH = /^\/apis?\/(?:v1|[^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?$/;

/** The part of an API server that records need, in memory. Tests with a real one are in test/kubernetes. */
export class FakeApiServer {
  readonly #objects = new Map<string, Stored<KubeObject>>();
  readonly #watches = new Set<Watch>();
  readonly #server: Server = createServer((request, response) => void this.#answer(request, response));
  readonly #opened: Api[] = [];
  #version = 1;
  /** Called before each request. */
  fault: (method: string, path: string) => Fault | undefined = () => undefined;
  /** Method and path of each received request. */
  readonly heard: string[] = [];

  static async start(): Promise<FakeApiServer> {
    const server = new FakeApiServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  stop(): void {
    for (const api of this.#opened) api.close();
    this.#server.close().closeAllConnections();
  }

  /** The API client of one manager, with short timeouts. */
  api(): Api {
    const url = new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
    const client = new HttpClient({ verify: true });
    const connect = async () => ({ client, headers: {} });
    const endpoint = { url, connect, forgetCredentials() {}, close: () => client.close() };
    const api = new Api(endpoint, {
      rate: { perSecond: 10_000, burst: 10_000 },
      requestMs: 5_000,
      patienceMs: 50,
      random: Math.random,
    });
    this.#opened.push(api);
    return api;
  }

  /** The current objects of that kind. */
  all(plural: string): Stored<KubeObject>[] {
    return [...this.#objects].flatMap(([key, object]) => (key.startsWith(`${plural}/`) ? object : []));
  }

  /** Creates or changes an object, as another program would. */
  put(plural: string, object: KubeObject): void {
    this.#write(`${plural}/${object.metadata.namespace ?? ''}/${object.metadata.name}`, object);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '' } = request;
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://here');
    this.heard.push(`${searchParams.has('watch') ? 'WATCH' : method} ${pathname}`);
    const fault = this.fault(method, pathname);
    const body = await text(request);
    if (fault === 'away') return void request.socket.destroy();
    if (typeof fault === 'object') return void response.writeHead(fault.status).end(JSON.stringify(fault));
    if (searchParams.has('dryRun')) return void response.writeHead(200).end(body);
    const answer = this.#do(method, pathname, searchParams, body === '' ? undefined : JSON.parse(body), response);
    if (fault === 'unanswered') request.socket.destroy();
    else if (answer) response.writeHead(answer.status).end(JSON.stringify(answer.body));
  }

  #do(method: string, path: string, query: URLSearchParams, body: KubeObject | undefined, response: ServerResponse) {
    const [, namespace = '', plural = '', name = body?.metadata?.name] = PATH.exec(path) ?? [];
    const key = `${plural}/${namespace}/${name}`;
    const there = this.#objects.get(key);
    if (method === 'POST' && body)
      return there ? failed(409, 'AlreadyExists') : { status: 201, body: this.#write(key, body) };
    if (method === 'GET' && name === undefined) return this.#list(plural, namespace, query, response);
    if (!there) return failed(404, 'NotFound');
    if (method === 'GET') return { status: 200, body: there };
    if (method === 'DELETE') return { status: 200, body: this.#remove(key, there) };
    const isOlder = body?.metadata.resourceVersion !== there.metadata.resourceVersion;
    return !body || isOlder ? failed(409, 'Conflict') : { status: 200, body: this.#write(key, body) };
  }

  #list(plural: string, namespace: string, query: URLSearchParams, response: ServerResponse) {
    const path = `${plural}/${namespace}`;
    const selector = query.get('labelSelector') ?? '';
    if (query.has('watch')) {
      const watch = { path, selector, response: response.writeHead(200) };
      response.flushHeaders();
      this.#watches.add(watch);
      response.on('close', () => this.#watches.delete(watch));
      // The changes since the list.
      for (const [key, object] of this.#objects)
        if (key.startsWith(path) && Number(object.metadata.resourceVersion) > Number(query.get('resourceVersion')))
          tell(watch, 'ADDED', object);
      return undefined;
    }
    const items = [...this.#objects].flatMap(([key, object]) =>
      key.startsWith(path) && isChosen(object, selector) ? object : [],
    );
    return { status: 200, body: { metadata: { resourceVersion: String(this.#version) }, items } };
  }

  #write(key: string, object: KubeObject): Stored<KubeObject> {
    const before = this.#objects.get(key);
    const uid = before?.metadata.uid ?? randomUUID();
    const stored = { ...object, metadata: { ...object.metadata, uid, resourceVersion: String(++this.#version) } };
    this.#objects.set(key, stored);
    this.#tell(key, before ? 'MODIFIED' : 'ADDED', stored);
    return stored;
  }

  #remove(key: string, object: Stored<KubeObject>): Stored<KubeObject> {
    this.#objects.delete(key);
    const last = { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#version) } };
    this.#tell(key, 'DELETED', last);
    return last;
  }

  #tell(key: string, type: string, object: Stored<KubeObject>): void {
    for (const watch of this.#watches) if (key.startsWith(watch.path)) tell(watch, type, object);
  }
}

function tell({ selector, response }: Watch, type: string, object: Stored<KubeObject>): void {
  if (isChosen(object, selector)) response.write(`${JSON.stringify({ type, object })}\n`);
}

/** `label`, or `label=value`. */
function isChosen({ metadata: { labels = {} } }: KubeObject, selector: string): boolean {
  if (selector === '') return true;
  const [label = '', value] = selector.split('=');
  return value === undefined ? label in labels : labels[label] === value;
}

const failed = (status: number, reason: string) => ({ status, body: { kind: 'Status', reason, message: reason } });
