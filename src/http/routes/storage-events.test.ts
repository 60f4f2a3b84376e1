import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Fastify from 'fastify';
import { Secret } from '../../lib/secret.ts';
import { StoreError } from '../../ports/index.ts';
import { acceptAnyBody } from '../body.ts';
import { answerError } from '../errors.ts';
import { type StorageEventsDeps, storageEventsRoutes } from './storage-events.ts';

const PATH = '/system/events/storage';
const TOKEN = 'a-token-of-the-store';

/** The route on a real socket. `received` has the bodies that were passed on. */
async function serve(more: Partial<StorageEventsDeps> = {}) {
  const received: string[] = [];
  const app = Fastify({ logger: false });
  acceptAnyBody(app);
  app.setErrorHandler(answerError);
  app.decorateRequest('who', '');
  storageEventsRoutes(app, {
    eventsToken: new Secret(TOKEN),
    maxEventBytes: 1_000,
    async receive(body) {
      received.push(Buffer.from(body).toString());
    },
    ...more,
  });
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const post = (body: string, authorization?: string, type = 'application/json') =>
    fetch(`${url}${PATH}`, {
      method: 'POST',
      body,
      headers: { 'content-type': type, ...(authorization !== undefined && { authorization }) },
    });
  return { received, post, [Symbol.asyncDispose]: () => app.close() };
}

describe('POST /system/events/storage', () => {
  test('what the store sends is passed on as it is, and answered with an empty 200', async () => {
    await using server = await serve();
    for (const body of ['{"Records":[]}\n', 'anything \u{1f600}', '']) {
      const answer = await server.post(body, `Bearer ${TOKEN}`, 'odd');
      assert.deepEqual([answer.status, await answer.text()], [200, '']);
    }
    assert.deepEqual(server.received, ['{"Records":[]}\n', 'anything \u{1f600}', '']);
  });

  for (const authorization of [
    undefined,
    'Bearer',
    'Bearer ',
    'Bearer wrong',
    TOKEN,
    `Basic ${TOKEN}`,
    `Bearer ${TOKEN}x`,
  ]) {
    test(`"${authorization}" is not the store`, async () => {
      await using server = await serve();
      const answer = await server.post('{}', authorization);
      assert.deepEqual([answer.status, await answer.text(), server.received], [401, '', []]);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer');
    });
  }

  for (const authorization of [undefined, 'Bearer ', 'Bearer undefined', `Bearer ${TOKEN}`]) {
    test(`storage events: without a configured token "${authorization}" is rejected`, async () => {
      await using server = await serve({ eventsToken: undefined });
      assert.equal((await server.post('{}', authorization)).status, 401);
    });
  }

  test('a body over the limit is refused', async () => {
    await using server = await serve();
    assert.equal((await server.post('x'.repeat(1_001), `Bearer ${TOKEN}`)).status, 413);
    assert.deepEqual(server.received, []);
  });

  test('while nothing can be kept the store is asked to come again', async () => {
    await using server = await serve({
      receive: async () => Promise.reject(new StoreError('unavailable', 'the disk is full')),
    });
    const answer = await server.post('{}', `Bearer ${TOKEN}`);
    assert.equal(answer.status, 503);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
  });
});
