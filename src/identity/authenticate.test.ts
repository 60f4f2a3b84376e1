import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { inspect } from 'node:util';
import { Secret } from '../lib/secret.ts';
import { createAuthenticator, type ServiceRoute } from './authenticate.ts';
import { IdentityError, type IdentityErrorCode } from './errors.ts';
import type { User } from './principal.ts';

const ALICE: User = { kind: 'user', uid: 'alice', name: 'Alice', groups: [], operator: false };
const TOKEN = 'a'.repeat(64);
const OTHER_TOKEN = 'b'.repeat(64);

const admin = { username: 'oscar', password: new Secret('s3cret') };
const oidc = {
  verify: (token: string) =>
    token === 'jwt-of-alice' ? Promise.resolve(ALICE) : Promise.reject(new IdentityError('bad-token', 'not a token')),
};
const withOidc = createAuthenticator({ admin, oidc });
const basicOnly = createAuthenticator({ admin });

const basic = (account: string) => `Basic ${Buffer.from(account).toString('base64')}`;
const cowsay = { token: new Secret(TOKEN), definition: { name: 'cowsay' } };
const route = (more: Partial<ServiceRoute> = {}): ServiceRoute => ({ service: cowsay, allowBasic: false, ...more });
const extra = (extraToken: string) => route({ extraToken, allowBasic: true });

const refused = (promise: Promise<unknown>, code: IdentityErrorCode) =>
  assert.rejects(promise, (error) => {
    assert.ok(error instanceof IdentityError);
    assert.equal(error.code, code);
    for (const secret of ['s3cret', 'gu3ss', TOKEN, OTHER_TOKEN]) assert.ok(!inspect(error).includes(secret));
    return true;
  });

suite('authentication on /system', () => {
  test('Basic credentials authenticate the administrator', async () => {
    assert.deepEqual(await withOidc.system([basic('oscar:s3cret')]), { kind: 'admin' });
  });
  test('an access token authenticates its user', async () => {
    assert.deepEqual(await withOidc.system(['Bearer jwt-of-alice']), ALICE);
  });
  test('wrong Basic credentials are rejected', () =>
    refused(withOidc.system([basic('oscar:gu3ss')]), 'bad-credentials'));
  test('Basic credentials that cannot be decoded are rejected', () =>
    refused(withOidc.system(['Basic gu3ss']), 'bad-credentials'));
  test('a bearer token that is not an access token is rejected', () =>
    refused(withOidc.system(['Bearer x']), 'bad-token'));
  test('a service token is rejected', () => refused(withOidc.system([`Bearer ${TOKEN}`]), 'bad-token'));
  test('two Authorization headers are rejected', () =>
    refused(withOidc.system([basic('oscar:s3cret'), 'Bearer jwt-of-alice']), 'ambiguous-credentials'));
  for (const values of [[], ['Bearer'], ['bearer jwt-of-alice'], ['Digest x']]) {
    test(`${JSON.stringify(values)} counts as no credentials`, () =>
      refused(withOidc.system(values), 'no-credentials'));
  }
  test('without OIDC a bearer token counts as no credentials', async () => {
    await refused(basicOnly.system(['Bearer jwt-of-alice']), 'no-credentials');
    await refused(basicOnly.system([`Bearer ${TOKEN}`]), 'no-credentials');
  });
  test('without OIDC Basic credentials authenticate the administrator', async () => {
    assert.deepEqual(await basicOnly.system([basic('oscar:s3cret')]), { kind: 'admin' });
  });
});

suite('authentication on a route of a service', () => {
  const holder = { kind: 'service-token', service: 'cowsay' };

  test('the service token authenticates its holder, with and without OIDC', async () => {
    assert.deepEqual(await withOidc.service([`Bearer ${TOKEN}`], route()), holder);
    assert.deepEqual(await basicOnly.service([`Bearer ${TOKEN}`], route()), holder);
  });
  test('an access token authenticates its user', async () => {
    assert.deepEqual(await withOidc.service(['Bearer jwt-of-alice'], route()), ALICE);
  });
  test('the token of another service is rejected', () =>
    refused(withOidc.service([`Bearer ${OTHER_TOKEN}`], route()), 'bad-token'));
  test('an unknown service gets the same answer as a wrong token', () =>
    refused(withOidc.service([`Bearer ${TOKEN}`], route({ service: undefined })), 'bad-token'));
  test('an access token is rejected without OIDC', () =>
    refused(basicOnly.service(['Bearer jwt-of-alice'], route()), 'bad-token'));
  test('Basic credentials authenticate the administrator if the route allows Basic', async () => {
    assert.deepEqual(await withOidc.service([basic('oscar:s3cret')], route({ allowBasic: true })), { kind: 'admin' });
  });
  test('wrong Basic credentials are rejected if the route allows Basic', () =>
    refused(withOidc.service([basic('oscar:gu3ss')], route({ allowBasic: true })), 'bad-credentials'));
  for (const values of [[basic('oscar:s3cret')], ['Basic gu3ss'], ['Digest x'], []]) {
    test(`${JSON.stringify(values)} gets bearer-required`, () =>
      refused(withOidc.service(values, route()), 'bearer-required'));
  }
  test('a request without credentials gets no-credentials if the route allows Basic', () =>
    refused(withOidc.service([], route({ allowBasic: true })), 'no-credentials'));
  test('two Authorization headers are rejected', () =>
    refused(withOidc.service([`Bearer ${TOKEN}`, `Bearer ${TOKEN}`], route()), 'ambiguous-credentials'));
});

suite('authentication with a token from a query parameter or a cookie', () => {
  test('the token is used if there is no Authorization header', async () => {
    assert.deepEqual(await withOidc.service([], extra(TOKEN)), { kind: 'service-token', service: 'cowsay' });
  });
  test('the token of another service is rejected', () =>
    refused(withOidc.service([], extra(OTHER_TOKEN)), 'bad-token'));
  test('a token without the form of a service token is ignored', () =>
    refused(withOidc.service([], extra('abc')), 'no-credentials'));
  test('the token does not replace a wrong bearer token', () =>
    refused(withOidc.service(['Bearer x'], extra(TOKEN)), 'bad-token'));
  test('the token does not replace Basic where a bearer token is required', () =>
    refused(withOidc.service([basic('oscar:s3cret')], route({ extraToken: TOKEN })), 'bearer-required'));
  test('the token does not replace wrong Basic credentials', () =>
    refused(withOidc.service([basic('oscar:gu3ss')], extra(TOKEN)), 'bad-credentials'));
});
