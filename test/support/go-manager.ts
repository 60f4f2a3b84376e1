import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

export interface GoService extends Record<string, unknown> {
  readonly name: string;
  readonly owner: string;
}

/**
 * As much of a manager written in Go as its members are asked for: services, each of its owner, and the buckets that they
 * make. Errors are plain text. A create and a delete of one name that overlap break. It is as slow as a real one was seen to
 * be, times `pace`.
 */
export interface GoManager extends AsyncDisposable {
  readonly url: string;
  readonly services: Map<string, GoService>;
  /** The names of buckets, with the service that created each. */
  readonly buckets: Map<string, string>;
  /** `<method> <path> as <owner>: <status>`, of all requests that were answered so far. */
  readonly seen: string[];
  /** Names of services whose create and delete overlapped. */
  readonly overlaps: string[];
  /** If set, the answer to every request, which then has no effect. */
  fails: GoFailure | undefined;
  /** 1: as slow as a real one. 0 by default: it answers at once. */
  pace: number;
  /** How many reads do not show a service after its create. */
  showsAfter: number;
  /** How many reads still show a service after its delete was answered; until then its name is not free. */
  lingersFor: number;
  /** The next request of this method takes effect, but is answered only when it is released. */
  hold(method: string): Hold;
}

interface GoFailure {
  readonly status: number;
  readonly text?: string;
  /** Requests of other methods are answered. */
  readonly method?: string;
}

export interface Hold {
  /** Resolves when the request has arrived. */
  readonly reached: Promise<void>;
  release(): void;
}

interface Answer {
  readonly status: number;
  readonly json?: object;
  readonly text?: string;
}

interface GoRequest {
  readonly method: string;
  readonly url: string;
  readonly body: string;
  readonly user: string;
}

export async function startGoManager(): Promise<GoManager> {
  const cluster = new GoCluster();
  const { services, buckets, overlaps } = cluster;
  const seen: string[] = [];
  const server = http.createServer((request, response) => {
    void (async () => {
      const body = Buffer.concat(await request.toArray()).toString();
      const { method = '', url = '', headers } = request;
      const user = userOf(headers.authorization ?? '');
      const { status, json, text } = await answerTo(user, { method, url, body });
      seen.push(`${method} ${url} as ${user}: ${status}`);
      if (json !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
      else if (text !== undefined) response.setHeader('content-type', 'text/plain; charset=utf-8');
      response.writeHead(status).end(json ? JSON.stringify(json) : text);
    })();
  });
  async function answerTo(user: string | undefined, request: Omit<GoRequest, 'user'>): Promise<Answer> {
    const { fails } = manager;
    if (fails && (fails.method ?? request.method) === request.method) return fails;
    return user === undefined ? { status: 401 } : cluster.reply({ ...request, user });
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const manager: GoManager = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    services,
    buckets,
    overlaps,
    seen,
    fails: undefined,
    get pace() {
      return cluster.pace;
    },
    set pace(pace) {
      cluster.pace = pace;
    },
    get showsAfter() {
      return cluster.showsAfter;
    },
    set showsAfter(count) {
      cluster.showsAfter = count;
    },
    get lingersFor() {
      return cluster.lingersFor;
    },
    set lingersFor(count) {
      cluster.lingersFor = count;
    },
    hold: (method) => cluster.hold(method),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
  return manager;
}

/** The user that the token names; its signature is not checked here. */
function userOf(authorization: string): string | undefined {
  const [kind, value = ''] = authorization.split(' ');
  if (kind === 'Basic') return Buffer.from(value, 'base64').toString().split(':')[0];
  const claims = value.split('.')[1];
  if (kind !== 'Bearer' || claims === undefined) return undefined;
  return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { sub: string }).sub;
}

/** How long a real one was seen to take, in milliseconds: at least and at most. */
const TAKES: Readonly<Record<string, readonly [number, number]>> = {
  POST: [8_000, 12_000],
  PUT: [1_000, 5_000],
  GET: [100, 5_000],
  DELETE: [8_000, 8_000],
};

class GoCluster {
  pace = 0;
  readonly services = new Map<string, GoService>();
  readonly buckets = new Map<string, string>();
  readonly overlaps: string[] = [];
  showsAfter = 0;
  lingersFor = 0;
  /** The unanswered operation on each service, by its name. */
  readonly #busy = new Map<string, 'POST' | 'DELETE'>();
  /** How many more reads hide a created service, or show a deleted one. */
  readonly #hidden = new Map<string, number>();
  readonly #lingering = new Map<string, { readonly service: GoService; left: number }>();
  readonly #holds = new Map<string, { readonly reach: () => void; readonly released: Promise<void> }>();

  hold(method: string): Hold {
    const arrival = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    this.#holds.set(method, { reach: arrival.resolve, released: release.promise });
    return { reached: arrival.promise, release: release.resolve };
  }

  async reply(request: GoRequest): Promise<Answer> {
    const { method, url, body } = request;
    const given = body === '' ? undefined : (JSON.parse(body) as GoService);
    const name = given?.name ?? url.replace('/system/services/', '');
    if (method === 'GET') return this.#held('GET', this.#show(name, request.user));
    if (method === 'POST' && given) return this.#create(given, request.user);
    if (method === 'PUT' && given) return this.#held('PUT', this.#update(given, request.user));
    return this.#delete(name, request.user);
  }

  #show(name: string, user: string): Answer {
    const hidden = this.#hidden.get(name) ?? 0;
    if (hidden > 0) {
      this.#hidden.set(name, hidden - 1);
      return { status: 404 };
    }
    const service = this.services.get(name) ?? this.#linger(name);
    if (!service) return { status: 404 };
    if (service.owner === user) return { status: 200, json: service };
    return { status: 403, text: `User ${user} doesn't have permision to get this service` };
  }

  #linger(name: string): GoService | undefined {
    const lingering = this.#lingering.get(name);
    if (!lingering) return undefined;
    if (lingering.left-- > 0) return lingering.service;
    this.#lingering.delete(name);
    return undefined;
  }

  async #create(given: GoService, user: string): Promise<Answer> {
    const { name } = given;
    if (this.#busy.has(name) || this.#lingering.has(name)) {
      this.overlaps.push(name);
      return this.#held('POST', {
        status: 500,
        text: `Error creating the service: object is being deleted: "${name}"`,
      });
    }
    if (this.services.get(name)) return this.#held('POST', { status: 400, text: `service ${name} already exists` });
    this.services.set(name, { ...given, token: 'ab'.repeat(32), owner: user });
    this.#hidden.set(name, this.showsAfter);
    const taken = isMeshWorker(given) ? undefined : bucketsOf(given).find((bucket) => this.buckets.has(bucket));
    if (taken !== undefined) this.services.delete(name);
    else if (!isMeshWorker(given)) for (const bucket of bucketsOf(given)) this.buckets.set(bucket, name);
    const text = `error creating bucket with name: ${taken}: you already own it`;
    return this.#held('POST', taken === undefined ? { status: 201 } : { status: 500, text }, name);
  }

  #update(given: GoService, user: string): Answer {
    const there = this.services.get(given.name);
    if (!there) return { status: 404 };
    if (there.owner !== user) return { status: 403, text: 'You are not the owner of this service' };
    this.services.set(given.name, { ...given, token: there['token'], owner: user });
    return { status: 204 };
  }

  /** Removes the service first, then the buckets that it names, even if another service created them. */
  async #delete(name: string, user: string): Promise<Answer> {
    const service = this.services.get(name);
    if (service?.owner !== user) return this.#held('DELETE', { status: 404 });
    if (this.#busy.has(name)) this.overlaps.push(name);
    this.services.delete(name);
    if (this.lingersFor > 0) this.#lingering.set(name, { service, left: this.lingersFor });
    const missing = bucketsOf(service).find((bucket) => !this.buckets.delete(bucket));
    const text = `error deleting bucket ${missing}: The specified bucket does not exist`;
    return this.#held('DELETE', missing === undefined ? { status: 204 } : { status: 500, text }, name);
  }

  async #held(method: string, answer: Answer, name?: string): Promise<Answer> {
    const hold = this.#holds.get(method);
    if (!hold && this.pace === 0) return answer;
    this.#holds.delete(method);
    if (name !== undefined && (method === 'POST' || method === 'DELETE')) this.#busy.set(name, method);
    hold?.reach();
    const [least, most] = TAKES[method] ?? [0, 0];
    await Promise.all([hold?.released, pause(this.pace * (least + Math.random() * (most - least)))]);
    if (name !== undefined) this.#busy.delete(name);
    return answer;
  }
}

/** Such a worker creates no buckets; all others do (decision 0045). */
function isMeshWorker({ annotations, federation }: GoService): boolean {
  const { 'oscar.grycap/federation-worker': worker } = (annotations ?? {}) as Record<string, string>;
  return worker === 'true' && (federation as { topology?: string } | undefined)?.topology === 'mesh';
}

function bucketsOf({ input = [], output = [] }: GoService): string[] {
  const places = [...(input as { path: string }[]), ...(output as { path: string }[])];
  return [...new Set(places.map(({ path }) => path.split('/')[0] ?? ''))];
}
