import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface GoService extends Record<string, unknown> {
  readonly name: string;
  readonly owner: string;
}

/** As much of a manager written in Go as its members are asked for (contract §1.5–§1.8): services, each of its owner. */
export interface GoManager extends AsyncDisposable {
  readonly url: string;
  readonly services: Map<string, GoService>;
  /** `<method> <path> as <owner>: <status>`, of all requests so far. */
  readonly seen: string[];
  /** While this is set it answers everything with that status. */
  fails: number | undefined;
}

export async function startGoManager(): Promise<GoManager> {
  const services = new Map<string, GoService>();
  const seen: string[] = [];
  const server = http.createServer((request, response) => {
    void (async () => {
      const body = Buffer.concat(await request.toArray()).toString();
      const { method = '', url = '', headers } = request;
      const user = userOf(headers.authorization ?? '');
      const answer: [number, object?] = user === undefined ? [401] : reply(services, user, { method, url, body });
      const [status, json] = manager.fails === undefined ? answer : [manager.fails];
      seen.push(`${method} ${url} as ${user}: ${status}`);
      if (json !== undefined) response.setHeader('content-type', 'application/json; charset=utf-8');
      response.writeHead(status).end(json && JSON.stringify(json));
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const manager: GoManager = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    services,
    seen,
    fails: undefined,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
  return manager;
}

/** Whoever the token says they are: what it is worth is tested elsewhere. */
function userOf(authorization: string): string | undefined {
  const [kind, value = ''] = authorization.split(' ');
  if (kind === 'Basic') return Buffer.from(value, 'base64').toString().split(':')[0];
  const claims = value.split('.')[1];
  if (kind !== 'Bearer' || claims === undefined) return undefined;
  return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { sub: string }).sub;
}

function reply(
  services: GoManager['services'],
  user: string,
  { method, url, body }: { readonly method: string; readonly url: string; readonly body: string },
): [number, object?] {
  if (method === 'POST' || method === 'PUT') {
    const given = JSON.parse(body) as GoService;
    const there = services.get(given.name);
    if (method === 'POST' && there) return [400];
    if (method === 'PUT' && !there) return [404];
    if (there && there.owner !== user) return [403];
    services.set(given.name, { ...given, token: 't', owner: user });
    return [method === 'POST' ? 201 : 204];
  }
  const name = url.replace('/system/services/', '');
  const service = services.get(name);
  if (!service) return [404];
  if (method === 'GET') return service.owner === user ? [200, service] : [403];
  if (service.owner !== user) return [404];
  services.delete(name);
  return [204];
}
