import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, type TestContext, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import Fastify, { type FastifyRequest } from 'fastify';
import { eventually } from '../ports/conformance/eventually.ts';
import { answerError, HttpError } from './errors.ts';
import { isOverloaded, type Load, loadMeter, NEVER_SHED, rejectWhileClosing, shedLoad } from './shedding.ts';

const OVERLOADED: Load = { upMs: 60_000, lateMs: 1_500, ownCpu: 0.95, waiting: 200 };

describe('shedding: what decides', () => {
  const cases: [string, Partial<Load>, boolean][] = [
    ['a long queue, a late loop and our own thread at work all the time', {}, true],
    ['the first seconds after a start', { upMs: 9_999 }, false],
    ['a loop that is late because the host is busy', { ownCpu: 0.3, lateMs: 20_000 }, false],
    ['a loop that is late, and nobody waits', { waiting: 3, lateMs: 20_000 }, false],
    ['many requests that are answered in time', { lateMs: 100 }, false],
    ['a long queue for something else than our thread', { ownCpu: 0.1, lateMs: 0, waiting: 10_000 }, false],
  ];
  for (const [name, load, expected] of cases) {
    test(`${name}: ${expected ? 'refused' : 'let in'}`, () => {
      assert.equal(isOverloaded({ ...OVERLOADED, ...load }), expected);
    });
  }
});

test('shedding: a request that is refused is told when to come back, and nothing is done for it', async (t) => {
  const app = Fastify();
  t.after(() => app.close());
  app.setErrorHandler(answerError);
  let load = { ...OVERLOADED, upMs: 0 };
  shedLoad(app, { measure: () => load });
  let done = 0;
  app.post('/work', async () => `done ${++done} times`);
  app.get('/job', NEVER_SHED, async () => 'goes on');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const work = () => fetch(`${url}/work`, { method: 'POST' });
  assert.equal((await work()).status, 200);

  load = OVERLOADED;
  const answer = await work();
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get('retry-after'), '2');
  assert.match(await answer.text(), /overloaded/);
  assert.equal(done, 1, 'what was refused was done');
  assert.equal((await fetch(`${url}/job`)).status, 200);
  // Everybody can send the header of another manager; only its routes are exempt.
  for (const header of ['x-oscar-member', 'x-oscar-federation']) {
    const pretended = await fetch(`${url}/work`, { method: 'POST', headers: { [header]: 'anything' } });
    assert.equal(pretended.status, 503, header);
  }
});

describe('shedding: fair between callers', () => {
  const open = async (t: TestContext, options: Partial<Parameters<typeof shedLoad>[1]> = {}) => {
    const app = Fastify();
    t.after(() => app.close());
    app.setErrorHandler(answerError);
    app.decorateRequest('who', '');
    shedLoad(app, { measure: (waiting) => ({ ...OVERLOADED, waiting: waiting + 100 }), ...options });
    const { promise: gate, resolve: release } = Promise.withResolvers<void>();
    const authenticate = async (request: FastifyRequest) => {
      const [, user = ''] = /^Bearer token-of-(\w+)$/.exec(request.headers.authorization ?? '') ?? [];
      if (user === '') throw new HttpError('bad-request', 'not a user');
      request.who = user;
    };
    app.get('/know', { ...NEVER_SHED, onRequest: authenticate }, async () => 'known');
    app.get('/slow', { ...NEVER_SHED, onRequest: authenticate }, async () => gate);
    app.get('/stranger', NEVER_SHED, async () => gate);
    app.get('/work', { onRequest: authenticate }, async () => 'done');
    const url = await app.listen({ port: 0, host: '127.0.0.1' });
    const get = async (path: string, headers: Record<string, string>) => {
      const answer = await fetch(`${url}${path}`, { headers });
      await answer.text();
      return answer;
    };
    return { get, release };
  };
  const as = (user: string) => ({ authorization: `Bearer token-of-${user}` });

  test('the flood of one user is rejected, and the requests of another are answered', async (t) => {
    const { get, release } = await open(t);
    for (const user of ['ana', 'ben']) await get('/know', as(user));
    const flood = Array.from({ length: 20 }, () => get('/slow', as('ana')));
    await eventually(async () => {
      const { status, headers } = await get('/work', as('ana'));
      assert.equal(status, 503);
      assert.equal(headers.get('retry-after'), '2');
      assert.equal((await get('/work', as('ben'))).status, 200);
    });
    release();
    for (const { status } of await Promise.all(flood)) assert.equal(status, 200, 'what is under way goes on');
  });

  test('invented credentials are one caller, not many', async (t) => {
    const { get, release } = await open(t);
    await get('/know', as('ben'));
    const invented = (index: number) => ({ authorization: `Bearer invented-${index}` });
    const flood = Array.from({ length: 20 }, (_, index) => get('/stranger', invented(index)));
    await eventually(async () => {
      assert.equal((await get('/work', invented(21))).status, 503);
      assert.equal((await get('/work', as('ben'))).status, 200);
    });
    release();
    await Promise.all(flood);
  });

  test('clients behind a trusted proxy are told apart, and others cannot name an address', async (t) => {
    for (const [proxies, status] of [
      [[{ address: '127.0.0.1', prefix: 32, family: 'ipv4' }], 200],
      [[], 503],
    ] as const) {
      const { get, release } = await open(t, { proxies, perCaller: 3, measure: () => ({ ...OVERLOADED, upMs: 0 }) });
      const flood = Array.from({ length: 3 }, (_, index) =>
        get('/slow', { authorization: `Bearer token-of-new${index}`, 'x-forwarded-for': '192.0.2.1' }),
      );
      await eventually(async () => {
        const from = (address: string) => get('/work', { ...as('other'), 'x-forwarded-for': address });
        assert.equal((await from('192.0.2.1')).status, 503);
        assert.equal((await from('192.0.2.2')).status, status);
      });
      release();
      await Promise.all(flood);
    }
  });
});

test('shedding: the queue is made of requests whose answers have not begun', async (t) => {
  const app = Fastify();
  t.after(() => app.close());
  const queues: number[] = [];
  shedLoad(app, {
    measure: (waiting) => {
      queues.push(waiting);
      return { ...OVERLOADED, waiting, upMs: 0 };
    },
  });
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  app.get('/slow', async () => gate);
  app.get('/stream', async (_request, reply) => {
    const stream = new PassThrough();
    stream.write('begun');
    return reply.send(stream);
  });
  app.get('/look', async () => 'looked');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const look = async () => {
    await (await fetch(`${url}/look`)).text();
    return queues.at(-1);
  };
  assert.equal(await look(), 0);
  const streaming = await fetch(`${url}/stream`);
  assert.equal(await look(), 0, 'its answer has begun');
  const slow = [fetch(`${url}/slow`), fetch(`${url}/slow`)];
  await eventually(async () => assert.equal(await look(), 2));
  const left = new AbortController();
  const leaving = fetch(`${url}/slow`, { signal: left.signal });
  await eventually(async () => assert.equal(await look(), 3));
  left.abort();
  await assert.rejects(leaving);
  await eventually(async () => assert.equal(await look(), 2));
  open();
  for (const each of await Promise.all(slow)) await each.text();
  assert.equal(await look(), 0);
  await streaming.body?.cancel();
});

test('shedding: the CPU that our own thread used is measured, whatever else the host does', async (t) => {
  const app = Fastify();
  t.after(() => app.close());
  const measure = loadMeter(app);
  assert.deepEqual({ ...measure(7), upMs: 0 }, { upMs: 0, lateMs: 0, ownCpu: 0, waiting: 7 });
  const burnt = 1_500;
  const begun = process.threadCpuUsage();
  while (usedMs(process.threadCpuUsage(begun)) < burnt);
  await eventually(async () => assert.notEqual(measure(0).lateMs, 0));
  const { lateMs, ownCpu } = measure(0);
  const window = 1_000 + lateMs;
  assert.ok(window * ownCpu >= burnt * 0.99, `${ownCpu} of ${window} ms`);
  assert.ok(ownCpu <= 1.05, String(ownCpu));
});

const usedMs = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1_000;

test('once closing, what is new is refused and its connection closed', async () => {
  const app = Fastify({ return503OnClosing: false });
  app.setErrorHandler(answerError);
  rejectWhileClosing(app);
  app.get('/work', async () => 'done');
  await app.listen({ port: 0, host: '127.0.0.1' });

  // Half a request keeps its connection open while the server closes; the other half is sent once it does.
  const { port } = app.server.address() as AddressInfo;
  const socket = connect({ host: '127.0.0.1', port }).setEncoding('utf8');
  const received = text(socket);
  const connected = once(app.server, 'connection');
  socket.write('GET /work HTTP/1.1\r\nhost: x\r\n');
  await connected;
  await turn();
  const closed = app.close();
  socket.write('\r\n');
  await closed;
  assert.match(await received, /^HTTP\/1\.1 503 .*connection: close.*shutting down/is);
});
