import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { test } from 'node:test';
import Fastify, { type FastifyReply } from 'fastify';
import { abortOnDisconnect, OpenResponses } from './open-answers.ts';

/** Calls a route whose handler does this, and leaves when it says so. */
async function visit(handle: (reply: FastifyReply, leave: () => void) => Promise<void>): Promise<void> {
  const app = Fastify();
  const leaving = new AbortController();
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  app.get('/', async (_request, reply) => {
    await handle(reply, () => leaving.abort()).then(resolve, reject);
    return 'done';
  });
  try {
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const call = fetch(url, { signal: leaving.signal }).then(
      (response) => response.text(),
      () => '',
    );
    await promise;
    await call;
  } finally {
    await app.close();
  }
}

test('a caller who leaves is noticed', () =>
  visit(async (reply, leave) => {
    const left = abortOnDisconnect(reply);
    assert.equal(left.aborted, false);
    leave();
    await once(left, 'abort');
  }));

test('a caller who has left before anybody looked is noticed too', () =>
  visit(async (reply, leave) => {
    const open = new OpenResponses(Fastify());
    leave();
    await once(reply.raw, 'close');
    assert.equal(abortOnDisconnect(reply).aborted, true);
    assert.equal(open.until(reply).aborted, true);
  }));

test('a caller who was answered has not left', async () => {
  let left: AbortSignal | undefined;
  let closed: Promise<unknown> | undefined;
  await visit(async (reply) => {
    left = abortOnDisconnect(reply);
    closed = once(reply.raw, 'close');
  });
  await closed;
  assert.equal(left?.aborted, false);
});

test('an answer stays open for so long and no longer', () =>
  visit(async (reply) => {
    const signal = new OpenResponses(Fastify()).until(reply, 5);
    await once(signal, 'abort');
  }));

test('open responses: one user has at most 256, others and managers are not affected', () => {
  const open = new OpenResponses(Fastify());
  const reply = (who: string, actor = who) =>
    ({
      request: { who, actor },
      raw: Object.assign(new EventEmitter(), { destroyed: false }),
    }) as unknown as FastifyReply;
  const first = reply('alice');
  open.until(first);
  for (let i = 1; i < 256; i++) open.until(reply('alice'));
  assert.throws(() => open.until(reply('alice')), { code: 'overloaded', message: /256 streams .* close some/ });
  open.until(reply('bob'));
  for (let i = 0; i < 300; i++) open.until(reply('coordinator of b/x', 'coordinator:b/x'));
  first.raw.emit('close');
  open.until(reply('alice'));
});
