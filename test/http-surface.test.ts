import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { request as rawRequest } from 'node:http';
import { connect } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';

const ALWAYS = [
  '/health',
  '/ready',
  '/system/audit',
  '/system/checks',
  '/system/config',
  '/system/config/keys',
  '/system/federation/{name}',
  '/system/federation/{name}/changes',
  '/system/federation/{name}/departures',
  '/system/federation/{name}/token',
  '/system/info',
  '/system/replicas/{name}',
  '/system/services',
  '/system/services/{name}',
  '/system/services/{name}/auth',
  '/system/services/{name}/deployment',
  '/system/services/{name}/deployment/logs',
  '/system/services/{name}/federation',
];

/** Of a manager that keeps objects, and so runs jobs. */
const WITH_A_STORE = [
  '/job/{name}',
  '/metrics',
  '/run/{name}',
  '/system/buckets',
  '/system/buckets/{name}',
  '/system/buckets/{name}/presign',
  '/system/clusters',
  '/system/events',
  '/system/events/storage',
  '/system/jobs',
  '/system/jobs/{name}',
  '/system/jobs/{name}/{id}',
  '/system/logs',
  '/system/logs/{name}',
  '/system/logs/{name}/{id}',
  '/system/metrics',
  '/system/metrics/breakdown',
  '/system/metrics/{name}',
  '/system/status',
];

let manager: TestManager;
before(async () => {
  manager = await startTestManager();
});
after(() => manager[Symbol.asyncDispose]());

describe('unknown routes', () => {
  const cases: [string, string][] = [
    ['GET', '/nope'],
    ['GET', '/system/nope'],
    ['PATCH', '/system/services'],
    ['DELETE', '/system/services'],
    ['POST', '/health'],
    ['PUT', '/system/services/demo'],
    ['OPTIONS', '/system/services'],
    ['GET', '/system//services'],
    ['GET', '/System/Services'],
    ['GET', '/system/volumes'],
    ['GET', '/system/quotas/user'],
    ['POST', '/system/services/demo/start'],
    ['GET', '/system/federation'],
    ['GET', '//evil.example/'],
  ];
  for (const [method, path] of cases) {
    test(`${method} ${path} is 404 with the Go manager's text, before authentication`, async () => {
      const answer = await manager.call(method, path);
      assert.equal(answer.status, 404);
      assert.equal(answer.text, '404 page not found');
      assert.equal(answer.headers.get('content-type'), 'text/plain');
    });
  }

  test('HEAD is 404 except below /ui/', async () => {
    for (const path of ['/health', '/system/info', '/health/']) {
      assert.equal((await manager.call('HEAD', path)).status, 404, path);
    }
    assert.equal((await manager.call('HEAD', '/ui/')).status, 200);
  });

  test('a malformed path is 400 without a crash', async () => {
    assert.match(
      await raw('GET /%zz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n'),
      /^HTTP\/1\.1 400 .*path of the request is malformed or too long/s,
    );
    assert.match(await raw('nonsense\r\n\r\n'), /^HTTP\/1\.1 400 /);
  });
});

describe('trailing slashes', () => {
  test('GET is redirected with 301 and keeps its query', async () => {
    const answer = await manager.call('GET', '/system/services/?include=deployment', { as: ADMIN });
    assert.equal(answer.status, 301);
    assert.equal(answer.headers.get('location'), '/system/services?include=deployment');
    assert.equal(answer.headers.get('content-type'), 'text/html; charset=utf-8');
  });

  test('other methods are redirected with 307 and no body', async () => {
    for (const [method, path] of [
      ['POST', '/system/services/'],
      ['PUT', '/system/config/'],
      ['DELETE', '/system/services/demo/'],
    ] as const) {
      const answer = await manager.call(method, path, { as: ADMIN });
      assert.equal(answer.status, 307);
      assert.equal(answer.headers.get('location'), path.slice(0, -1));
      assert.equal(answer.text, '');
    }
  });

  test('the path is escaped in the redirect page', async () => {
    const answer = await manager.call('GET', '/system/services/x%22%3Cb%3E/', { as: ADMIN });
    assert.equal(answer.status, 301);
    assert.ok(!answer.text.includes('<b>'));
  });
});

describe('web pages', () => {
  test('/ and /ui are redirected to /ui/', async () => {
    for (const path of ['/', '/ui']) {
      const answer = await manager.call('GET', path);
      assert.equal(answer.status, 301);
      assert.equal(answer.headers.get('location'), '/ui/');
    }
    const page = await manager.call('GET', '/ui/');
    assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
    assert.match(page.text, /<title>OSCAR Manager<\/title>/);
  });

  test('a missing file is 404 without body and type', async () => {
    for (const path of ['/ui/missing.js', '/ui/__proto__', '/ui/constructor', '/ui/..%2f..%2fpackage.json']) {
      const answer = await manager.call('GET', path);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.text, '');
      assert.equal(answer.headers.get('content-type'), null);
    }
  });

  test('the API is described as OpenAPI and as a page', async () => {
    const document = (await manager.call('GET', '/openapi.json')).json() as {
      openapi: string;
      paths: Record<string, unknown>;
    };
    assert.equal(document.openapi, '3.1.0');
    const paths = [...ALWAYS, ...(manager.hasStore ? WITH_A_STORE : [])];
    assert.deepEqual(Object.keys(document.paths).toSorted(), paths.toSorted());
    const page = await manager.call('GET', '/ui/api.html');
    assert.equal(page.status, 200);
    for (const path of Object.keys(document.paths)) assert.ok(page.text.includes(`<code>${path}</code>`), path);
  });
});

test('health: /health answers Ok', async () => {
  const answer = await manager.call('GET', '/health');
  assert.equal(answer.text, 'Ok');
  assert.equal(answer.headers.get('content-type'), 'text/plain; charset=utf-8');
});

test('info: version is the level of the OSCAR API, from which on the dashboard shows all its pages; the program has its own', async () => {
  const info = (await manager.call('GET', '/system/info', { as: ADMIN })).json() as Record<string, string>;
  const [major = 0, minor = 0] = (info['version'] ?? '').split('.').map(Number);
  assert.ok(major > 4 || (major === 4 && minor >= 1), info['version']);
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  assert.equal(info['manager_version'], version);
  assert.notEqual(info['version'], info['manager_version']);
});

test('readiness: /ready answers strangers in JSON, and is logged at level debug', async () => {
  const answer = await manager.call('GET', '/ready');
  assert.deepEqual([answer.status, answer.text], [200, '{"ready":true,"reasons":[]}']);
  assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
  const levels = manager.log.filter(({ path }) => path === '/ready').map(({ level }) => level);
  assert.deepEqual(levels, [20]);
});

test('CORS: without configuration there are no headers', async () => {
  const answer = await manager.call('GET', '/health', { headers: { origin: 'http://localhost:5173' } });
  assert.equal(answer.headers.get('access-control-allow-origin'), null);
});

test('DELETE: may have a body, with or without a content type', async () => {
  for (const headers of [{}, { 'content-type': 'application/json' }, { 'content-type': 'nonsense' }]) {
    const answer = await manager.call('DELETE', '/system/services/nope', { as: ADMIN, body: '{"x":1}', headers });
    assert.equal(answer.status, 404);
  }
});

test('request id: every answer has one, and the client may choose it', async () => {
  const answer = await manager.call('GET', '/system/info', {
    as: ADMIN,
    headers: { 'x-request-id': 'mine-1', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' },
  });
  assert.equal(answer.headers.get('x-request-id'), 'mine-1');
  const line = manager.log.find((entry) => entry['request'] === 'mine-1');
  assert.equal(line?.['trace'], '0af7651916cd43dd8448eb211c80319c');
  assert.equal(line?.['user'], 'admin');
  assert.equal(line?.['path'], '/system/info');
  assert.equal(line?.['status'], 200);
});

test('request id: an invalid request id or trace is ignored', async () => {
  const answer = await manager.call('GET', '/health', {
    headers: { 'x-request-id': 'a b"c', traceparent: '00-zz-01' },
  });
  assert.match(answer.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
});

test('credentials: two Authorization headers are rejected', async () => {
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const { hostname, port } = new URL(manager.url);
    const sent = rawRequest(
      {
        hostname,
        port,
        path: '/system/info',
        setHost: true,
        headers: [
          ['Authorization', ADMIN],
          ['authorization', 'Basic eDp5'],
        ].flat(),
      },
      (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      },
    );
    sent.on('error', reject).end();
  });
  assert.equal(status, 400);
});

/** Sends bytes as they are and gives all that comes back. */
function raw(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(manager.url);
    let received = '';
    connect({ host: hostname, port: Number(port) })
      .on('data', (chunk) => {
        received += chunk.toString();
      })
      .on('error', reject)
      .on('close', () => resolve(received))
      .end(text);
  });
}
