import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { HttpClient } from '../../../lib/http/index.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { Api } from '../client/api.ts';
import { NodeUsage, repeat } from './node-usage.ts';

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

const FOUND = {
  status: 200,
  body: {
    metadata: {},
    items: [
      { metadata: { name: 'a' }, usage: { cpu: '1250500001n', memory: '2048Ki' } },
      { metadata: { name: 'b' }, usage: { cpu: '7m', memory: '5' } },
    ],
  },
};
const NO_SUCH_API = { status: 404, body: { reason: 'NotFound', message: 'the server could not find it' } };
const DOWN = { status: 503, body: { reason: 'ServiceUnavailable', message: 'metrics-server does not answer' } };

/** An API server that reports the given usage of nodes. */
async function serving(t: TestContext, first: Answer) {
  const asked: string[] = [];
  const now = { answer: first };
  const server = createServer((request, response) => {
    asked.push(request.url ?? '');
    response.writeHead(now.answer.status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(now.answer.body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = new HttpClient({ verify: true });
  const endpoint = { url, connect: async () => ({ client, headers: {} }), forgetCredentials() {}, close() {} };
  const rate = { perSecond: 1_000, burst: 1_000 };
  const api = new Api(endpoint, { rate, requestMs: 1_000, patienceMs: 0, random: Math.random });
  t.after(() => {
    client.close();
    server.close();
  });
  return { usage: new NodeUsage(api), now, asked };
}

test('node usage: it is read from metrics.k8s.io', async (t) => {
  const { usage, asked } = await serving(t, FOUND);
  assert.equal(usage.get('a'), undefined);
  await usage.refresh();
  assert.match(asked[0] ?? '', /^\/apis\/metrics\.k8s\.io\/v1beta1\/nodes(\?|$)/);
  const { cpu, memory } = usage.get('a') ?? {};
  assert.deepEqual([cpu, memory], [1_251, 2 * 1024 ** 2]);
  assert.equal(usage.get('b')?.cpu, 7);
  assert.equal(usage.get('c'), undefined);
});

test('node usage: a cluster without metrics is no problem, and earlier figures no longer count', async (t) => {
  const { usage, now } = await serving(t, FOUND);
  await usage.refresh();
  now.answer = NO_SUCH_API;
  await usage.refresh();
  assert.equal(usage.get('a'), undefined);
});

test('node usage: metrics that do not answer are reported', async (t) => {
  const { usage, now } = await serving(t, FOUND);
  await usage.refresh();
  now.answer = DOWN;
  await assert.rejects(usage.refresh(), {
    message: 'the manager could not ask metrics.k8s.io what nodes use: metrics-server does not answer',
  });
  assert.equal(usage.get('a'), undefined);
});

test('node usage: it polls until it is stopped, and reports the first of several failures in a row', async (t) => {
  const { usage, now, asked } = await serving(t, DOWN);
  const stop = new AbortController();
  const problems: unknown[] = [];
  const done = repeat(
    () => usage.refresh(),
    1,
    stop.signal,
    (problem) => problems.push(problem),
  );
  await eventually(() => assert.ok(asked.length >= 3));
  assert.equal(problems.length, 1);
  now.answer = FOUND;
  await eventually(() => assert.equal(usage.get('b')?.memory, 5));
  now.answer = DOWN;
  await eventually(() => assert.equal(problems.length, 2));
  stop.abort();
  await done;
  const { length } = asked;
  await new Promise(setImmediate);
  assert.equal(asked.length, length);
});
