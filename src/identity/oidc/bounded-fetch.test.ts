import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { after, before, test } from 'node:test';
import { boundedFetch, boundedRequest, ISSUER_ANSWER_LIMIT } from './bounded-fetch.ts';

let answer: RequestListener;
const server = createServer((request, response) => answer(request, response));
let url = '';

before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  url = `http://127.0.0.1:${address.port}/`;
});
after(() => {
  server.close();
  server.closeAllConnections();
});

test('bounded request: the answer is returned with its status', async () => {
  answer = (_request, response) => response.writeHead(418).end('{"a":1}');
  const response = await boundedFetch(url);
  assert.equal(response.status, 418);
  assert.deepEqual(await response.json(), { a: 1 });
});

test('bounded request: a form is sent with the same limits', async () => {
  answer = (request, response) => {
    response.write(`${request.method} ${request.headers['content-type']} `);
    request.pipe(response);
  };
  const body = new URLSearchParams({ token: 'a&b' });
  const response = await boundedRequest(url, { method: 'POST', body });
  assert.equal(await response.text(), 'POST application/x-www-form-urlencoded;charset=UTF-8 token=a%26b');
  answer = (_request, late) => late.end('x'.repeat(ISSUER_ANSWER_LIMIT + 1));
  await assert.rejects(boundedRequest(url, { method: 'POST', body }), /longer than/);
});

test('bounded request: an empty answer is not an error', async () => {
  answer = (_request, response) => response.writeHead(204).end();
  assert.equal((await boundedFetch(url)).status, 204);
});

test('bounded request: a redirect is not followed', async () => {
  answer = (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
  assert.equal((await boundedFetch(url)).status, 302);
});

test('bounded request: an answer longer than the limit is an error', async () => {
  answer = (_request, response) => response.end('x'.repeat(ISSUER_ANSWER_LIMIT));
  assert.equal((await (await boundedFetch(url)).text()).length, ISSUER_ANSWER_LIMIT);
  answer = (_request, response) => response.end('x'.repeat(ISSUER_ANSWER_LIMIT + 1));
  await assert.rejects(boundedFetch(url), /longer than/);
});

test('bounded request: the deadline includes the body of the answer', async () => {
  const deadline = new AbortController();
  answer = (_request, response) => {
    response.writeHead(200).write('begun');
    deadline.abort(new Error('deadline'));
  };
  await assert.rejects(boundedFetch(url, { signal: deadline.signal }), /deadline/);
});
