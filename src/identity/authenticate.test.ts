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

suite('on /system', () => {
  test('Basic is the administrator', async () => {
    assert.deepEqual(await withOidc.system([basic('oscar:s3cret')]), { kind: 'admin' });
  });
  test('an access token is its user', async () => {
    assert.deepEqual(await withOidc.system(['Bearer jwt-of-alice']), ALICE);
  });
  test('wrong Basic credentials are refused', () =>
    refused(withOidc.system([basic('oscar:gu3ss')]), 'bad-credentials'));
  test('unreadable Basic credentials are refused', () => refused(withOidc.system(['Basic gu3ss']), 'bad-credentials'));
  test('a bearer that is no access token is refused', () => refused(withOidc.system(['Bearer x']), 'bad-token'));
  test('a service token is refused', () => refused(withOidc.system([`Bearer ${TOKEN}`]), 'bad-token'));
  test('two headers are refused', () =>
    refused(withOidc.system([basic('oscar:s3cret'), 'Bearer jwt-of-alice']), 'ambiguous-credentials'));
  for (const values of [[], ['Bearer'], ['bearer jwt-of-alice'], ['Digest x']]) {
    test(`${JSON.stringify(values)} is no credentials`, () => refused(withOidc.system(values), 'no-credentials'));
  }
  test('without OIDC a bearer is no credentials', async () => {
    await refused(basicOnly.system(['Bearer jwt-of-alice']), 'no-credentials');
    await refused(basicOnly.system([`Bearer ${TOKEN}`]), 'no-credentials');
  });
  test('without OIDC Basic is the administrator', async () => {
    assert.deepEqual(await basicOnly.system([basic('oscar:s3cret')]), { kind: 'admin' });
  });
});

suite('on a route of a service', () => {
  const holder = { kind: 'service-token', service: 'cowsay' };

  test('its token is its holder, with and without OIDC', async () => {
    assert.deepEqual(await withOidc.service([`Bearer ${TOKEN}`], route()), holder);
    assert.deepEqual(await basicOnly.service([`Bearer ${TOKEN}`], route()), holder);
  });
  test('an access token is its user', async () => {
    assert.deepEqual(await withOidc.service(['Bearer jwt-of-alice'], route()), ALICE);
  });
  test('the token of another service is refused', () =>
    refused(withOidc.service([`Bearer ${OTHER_TOKEN}`], route()), 'bad-token'));
  test('an unknown service is answered like a wrong token', () =>
    refused(withOidc.service([`Bearer ${TOKEN}`], route({ service: undefined })), 'bad-token'));
  test('an access token without OIDC is refused', () =>
    refused(basicOnly.service(['Bearer jwt-of-alice'], route()), 'bad-token'));
  test('Basic is the administrator where Basic is allowed', async () => {
    assert.deepEqual(await withOidc.service([basic('oscar:s3cret')], route({ allowBasic: true })), { kind: 'admin' });
  });
  test('wrong Basic credentials are refused where Basic is allowed', () =>
    refused(withOidc.service([basic('oscar:gu3ss')], route({ allowBasic: true })), 'bad-credentials'));
  for (const values of [[basic('oscar:s3cret')], ['Basic gu3ss'], ['Digest x'], []]) {
    test(`${JSON.stringify(values)} is not the bearer that is required`, () =>
      refused(withOidc.service(values, route()), 'bearer-required'));
  }
  test('nothing is no credentials where Basic is allowed', () =>
    refused(withOidc.service([], route({ allowBasic: true })), 'no-credentials'));
  test('two headers are refused', () =>
    refused(withOidc.service([`Bearer ${TOKEN}`, `Bearer ${TOKEN}`], route()), 'ambiguous-credentials'));
});

suite('a token from a query or a cookie', () => {
  test('is taken when there is no Authorization', async () => {
    assert.deepEqual(await withOidc.service([], extra(TOKEN)), { kind: 'service-token', service: 'cowsay' });
  });
  test('is refused when it is the token of another service', () =>
    refused(withOidc.service([], extra(OTHER_TOKEN)), 'bad-token'));
  test('is not for us when it has another form', () => refused(withOidc.service([], extra('abc')), 'no-credentials'));
  test('does not help a wrong bearer', () => refused(withOidc.service(['Bearer x'], extra(TOKEN)), 'bad-token'));
  test('does not help Basic where a bearer is required', () =>
    refused(withOidc.service([basic('oscar:s3cret')], route({ extraToken: TOKEN })), 'bearer-required'));
  test('does not help wrong Basic credentials', () =>
    refused(withOidc.service([basic('oscar:gu3ss')], extra(TOKEN)), 'bad-credentials'));
});
