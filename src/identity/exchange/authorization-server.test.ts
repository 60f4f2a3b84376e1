import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifyResponse, type IssuerResponse, knownErrorCode, type ResponseClass } from './authorization-server.ts';

const cases: [string, IssuerResponse, ResponseClass][] = [
  ['no answer says nothing', { failure: new Error('refused') }, 'away'],
  ['200 is an answer', { status: 200, body: {} }, 'answered'],
  ['invalid_grant is the end of the token', { status: 400, body: { error: 'invalid_grant' } }, 'spent'],
  ['invalid_token as well', { status: 401, body: { error: 'invalid_token' } }, 'spent'],
  ['invalid_client is about us', { status: 401, body: { error: 'invalid_client' } }, 'refused'],
  ['any other word is about us', { status: 400, body: { error: 'we_do_not_like_you' } }, 'refused'],
  ['5xx says nothing, whatever it says', { status: 503, body: { error: 'invalid_grant' } }, 'away'],
  ['429 says nothing', { status: 429, body: { error: 'invalid_grant' } }, 'away'],
  ['nor does a word that means later', { status: 400, body: { error: 'temporarily_unavailable' } }, 'away'],
  ['nor a page of a proxy', { status: 403 }, 'away'],
  ['nor an error that is no text', { status: 400, body: { error: { code: 7 } } }, 'away'],
  ['nor a redirect', { status: 302 }, 'away'],
];
for (const [name, heard, verdict] of cases) test(name, () => assert.equal(classifyResponse(heard), verdict));

test('only known words of an issuer are repeated', () => {
  assert.equal(knownErrorCode({ body: { error: 'invalid_client' } }), 'invalid_client');
  assert.equal(knownErrorCode({ body: { error: 'your token was abc' } }), 'no reason');
  assert.equal(knownErrorCode({}), 'no reason');
});
