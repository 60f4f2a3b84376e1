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

test('an answer is passed on with its status', async () => {
  answer = (_request, response) => response.writeHead(418).end('{"a":1}');
  const response = await boundedFetch(url);
  assert.equal(response.status, 418);
  assert.deepEqual(await response.json(), { a: 1 });
});

test('a form is sent as it is, within the same bounds', async () => {
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

test('an empty answer is no error', async () => {
  answer = (_request, response) => response.writeHead(204).end();
  assert.equal((await boundedFetch(url)).status, 204);
});

test('a redirect is not followed', async () => {
  answer = (_request, response) => response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
  assert.equal((await boundedFetch(url)).status, 302);
});

test('an answer of the longest length is read, a longer one is an error', async () => {
  answer = (_request, response) => response.end('x'.repeat(ISSUER_ANSWER_LIMIT));
  assert.equal((await (await boundedFetch(url)).text()).length, ISSUER_ANSWER_LIMIT);
  answer = (_request, response) => response.end('x'.repeat(ISSUER_ANSWER_LIMIT + 1));
  await assert.rejects(boundedFetch(url), /longer than/);
});

test('the deadline is over the whole answer, not only its head', async () => {
  const deadline = new AbortController();
  answer = (_request, response) => {
    response.writeHead(200).write('begun');
    deadline.abort(new Error('deadline'));
  };
  await assert.rejects(boundedFetch(url, { signal: deadline.signal }), /deadline/);
});
