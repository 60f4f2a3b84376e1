import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifyResponse, type IssuerResponse, knownErrorCode, type ResponseClass } from './authorization-server.ts';

const cases: [string, IssuerResponse, ResponseClass][] = [
  ['no answer is retryable', { failure: new Error('refused') }, 'unavailable'],
  ['200 is ok', { status: 200, body: {} }, 'ok'],
  ['invalid_grant means that the token is invalid', { status: 400, body: { error: 'invalid_grant' } }, 'token-invalid'],
  ['invalid_token means that the token is invalid', { status: 401, body: { error: 'invalid_token' } }, 'token-invalid'],
  ['invalid_client is a refusal of our client', { status: 401, body: { error: 'invalid_client' } }, 'refused'],
  [
    'any other error code is a refusal of our client',
    { status: 400, body: { error: 'we_do_not_like_you' } },
    'refused',
  ],
  ['5xx is retryable, whatever its body', { status: 503, body: { error: 'invalid_grant' } }, 'unavailable'],
  ['429 is retryable', { status: 429, body: { error: 'invalid_grant' } }, 'unavailable'],
  [
    'an error code that asks to retry is retryable',
    { status: 400, body: { error: 'temporarily_unavailable' } },
    'unavailable',
  ],
  ['an error page of a proxy is retryable', { status: 403 }, 'unavailable'],
  ['an error code that is not a string is retryable', { status: 400, body: { error: { code: 7 } } }, 'unavailable'],
  ['a redirect is retryable', { status: 302 }, 'unavailable'],
];
for (const [name, response, expected] of cases) {
  test(`issuer response: ${name}`, () => assert.equal(classifyResponse(response), expected));
}

test('issuer response: only known error codes are shown', () => {
  assert.equal(knownErrorCode({ body: { error: 'invalid_client' } }), 'invalid_client');
  assert.equal(knownErrorCode({ body: { error: 'your token was abc' } }), 'no reason');
  assert.equal(knownErrorCode({}), 'no reason');
});
