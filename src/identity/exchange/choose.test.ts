import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnsecuredJWT } from 'jose';
import { Secret } from '../../lib/secret.ts';
import { chooseClient, chooseIssuer, readHints } from './choose.ts';

const [A, B, ELSEWHERE] = ['https://a.example', 'https://b.example', 'https://evil.example'];
const REFUSED = { code: 'exchange-refused' };

describe('the issuer to which a refresh token is sent', () => {
  const cases = [
    { name: 'is the issuer of the grant', grant: { issuer: B }, hints: { issuer: A }, chosen: B },
    { name: 'else the issuer that the token names', grant: {}, hints: { issuer: B }, chosen: B },
    { name: 'is never an issuer that is not configured', grant: {}, hints: { issuer: ELSEWHERE }, chosen: A },
    { name: 'is the first configured one if neither grant nor token names one', grant: {}, hints: {}, chosen: A },
    { name: 'is none if the issuer of the grant is no longer configured', grant: { issuer: ELSEWHERE }, hints: {} },
    { name: 'is none if none is configured', grant: {}, hints: { issuer: A }, configured: [] },
  ];
  for (const { name, grant, hints, chosen, configured = [A, B] } of cases) {
    test(name, () => {
      const choose = () =>
        chooseIssuer(
          grant,
          hints,
          configured.map((url) => ({ url })),
        );
      if (chosen) assert.deepEqual(choose(), { url: chosen });
      else assert.throws(choose, REFUSED);
    });
  }
});

describe('the client with which a refresh token is redeemed', () => {
  const ours = { id: 'oscar', secret: new Secret('s3cret') };
  const cases = [
    { name: 'is the configured one', hints: {}, configured: ours, chosen: ours },
    {
      name: 'is the configured one, with its secret, if the token names it',
      hints: { client: 'oscar' },
      configured: ours,
      chosen: ours,
    },
    {
      name: 'is the public client that the token names',
      hints: { client: 'cli' },
      configured: undefined,
      chosen: { id: 'cli' },
    },
    {
      name: 'never gets the secret of another client',
      hints: { client: 'cli' },
      configured: ours,
      chosen: { id: 'cli' },
    },
    { name: 'is an error if neither setting nor token names one', hints: {}, configured: undefined },
  ];
  for (const { name, hints, configured, chosen } of cases) {
    test(name, () => {
      if (chosen) assert.deepEqual(chooseClient(hints, configured), chosen);
      else assert.throws(() => chooseClient(hints, configured), { ...REFUSED, message: /OIDC_CLIENT_ID/ });
    });
  }
});

describe('hints in a refresh token', () => {
  const jwt = (claims: Record<string, unknown>) => new UnsecuredJWT(claims).encode();
  const cases: [string, string, object][] = [
    ['issuer and client', jwt({ iss: A, azp: 'cli' }), { issuer: A, client: 'cli' }],
    ['another claim for the client', jwt({ client_id: 'cli' }), { client: 'cli' }],
    ['claims of other types are ignored', jwt({ azp: ['cli'], client_id: '' }), {}],
    ['an opaque token has no hints', 'dummy-token', {}],
    ['a token that only looks like a JWT has no hints', 'a.b.c', {}],
    ['an empty token has no hints', '', {}],
    ['a JWT whose payload is not an object has no hints', `${btoa('{}')}.${btoa('null')}.`, {}],
  ];
  for (const [name, token, hints] of cases) test(name, () => assert.deepEqual(readHints(new Secret(token)), hints));
});
