import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import Fastify from 'fastify';
import { eventually } from '../cluster/eventually.ts';
import { answerError } from './errors.ts';
import { refuseWhileClosing, shedLoad, UNDER_WAY } from './shedding.ts';

test('while the event loop is late, requests are turned away and told when to come back; /health and what is under way are answered', async (t) => {
  const app = Fastify();
  t.after(() => app.close());
  app.setErrorHandler(answerError);
  await shedLoad(app, { latestMs: 20, sampleMs: 10 });
  // Answers are on their way for a while, in which nothing else is to happen.
  app.addHook('onSend', async () => turn());
  let done = 0;
  app.get('/health', async () => 'Ok');
  app.post('/work', async () => `done ${++done} times`);
  app.get('/under-way', UNDER_WAY, async () => 'goes on');
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  const work = () => fetch(`${url}/work`, { method: 'POST' });
  const goesOn = () => fetch(`${url}/under-way`);
  // The machine may have other things to do.
  await eventually(async () => assert.equal((await work()).status, 200));

  let before = done;
  let [answer, underWay] = await Promise.all([work(), goesOn()]);
  for (let blocked = 0; blocked < 50 && answer.status === 200; blocked++) {
    busyFor(100);
    await turn();
    before = done;
    [answer, underWay] = await Promise.all([work(), goesOn()]);
    assert.equal(underWay.status, 200);
  }
  assert.equal(answer.status, 503);
  assert.equal(answer.headers.get('retry-after'), '2');
  assert.match(await answer.text(), /too much to do/);
  assert.equal(done, before, 'what was refused was done');
  assert.equal((await fetch(`${url}/health`)).status, 200);
});

test('once closing, what is new is refused and its connection closed', async () => {
  const app = Fastify({ return503OnClosing: false });
  app.setErrorHandler(answerError);
  refuseWhileClosing(app);
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

function busyFor(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}
