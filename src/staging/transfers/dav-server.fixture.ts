import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { TEST_CERTIFICATE, TEST_KEY } from '../../lib/http/certificate.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import type { WebdavAccess } from '../../model/job/index.ts';

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** A minimal WebDAV server: files in existing collections, for one user. */
export async function davServer(t: Pick<TestContext, 'after'>, intercept?: (each: string) => Handler | undefined) {
  const files = new Map<string, Buffer>();
  const collections = new Set(['']);
  const requests: string[] = [];
  const server = createServer({ key: TEST_KEY, cert: TEST_CERTIFICATE }, (request, response) => {
    const path = decodeURIComponent(request.url ?? '').replace(/^\/|\/$/g, '');
    const each = `${request.method} ${path}`;
    requests.push(each);
    const handler = intercept?.(each);
    if (handler) handler(request, response);
    else void serve(request, path).then(([status, body]) => response.writeHead(status).end(body));
  });

  const serve = async (
    request: IncomingMessage,
    path: string,
  ): Promise<[status: number, body?: Buffer | undefined]> => {
    const body = Buffer.concat(await request.toArray());
    const expected = `Basic ${Buffer.from('käthe:pass:word').toString('base64')}`;
    if (request.headers.authorization !== expected) return [401];
    const parent = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
    if (request.method === 'GET') return files.has(path) ? [200, files.get(path)] : [404];
    if (request.method === 'MKCOL' && collections.has(path)) return [405];
    if (!collections.has(parent)) return [409];
    if (request.method === 'MKCOL') collections.add(path);
    else files.set(path, body);
    return [201];
  };

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const access: WebdavAccess = {
    type: 'webdav',
    hostname: `localhost:${(server.address() as AddressInfo).port}`,
    login: 'käthe',
    password: new Secret('pass:word'),
    guarded: false,
  };
  return { access, files, requests };
}
