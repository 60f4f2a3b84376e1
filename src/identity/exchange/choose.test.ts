import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { UnsecuredJWT } from 'jose';
import { Secret } from '../../lib/secret.ts';
import { chooseClient, chooseIssuer, readHints } from './choose.ts';

const [A, B, ELSEWHERE] = ['https://a.example', 'https://b.example', 'https://evil.example'];
const REFUSED = { code: 'exchange-refused' };

describe('the issuer that a refresh token is shown to', () => {
  const cases = [
    { name: 'is that of the grant', grant: { issuer: B }, hints: { issuer: A }, chosen: B },
    { name: 'else that of the token', grant: {}, hints: { issuer: B }, chosen: B },
    { name: 'is never one that only the token knows', grant: {}, hints: { issuer: ELSEWHERE }, chosen: A },
    { name: 'is the first one if nobody says', grant: {}, hints: {}, chosen: A },
    { name: 'is none if the grant is of one that is not accepted any more', grant: { issuer: ELSEWHERE }, hints: {} },
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

describe('the client that a refresh token is redeemed as', () => {
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
      name: 'is a public one that the token names',
      hints: { client: 'cli' },
      configured: undefined,
      chosen: { id: 'cli' },
    },
    { name: 'never gets the secret of another', hints: { client: 'cli' }, configured: ours, chosen: { id: 'cli' } },
    { name: 'is unknown if nobody says', hints: {}, configured: undefined },
  ];
  for (const { name, hints, configured, chosen } of cases) {
    test(name, () => {
      if (chosen) assert.deepEqual(chooseClient(hints, configured), chosen);
      else assert.throws(() => chooseClient(hints, configured), { ...REFUSED, message: /OIDC_CLIENT_ID/ });
    });
  }
});

describe('what a refresh token says about itself', () => {
  const jwt = (claims: Record<string, unknown>) => new UnsecuredJWT(claims).encode();
  const cases: [string, string, object][] = [
    ['issuer and client', jwt({ iss: A, azp: 'cli' }), { issuer: A, client: 'cli' }],
    ['another word for the client', jwt({ client_id: 'cli' }), { client: 'cli' }],
    ['claims of other types are nothing', jwt({ azp: ['cli'], client_id: '' }), {}],
    ['an opaque one says nothing', 'dummy-token', {}],
    ['nor does one that looks like a JWT', 'a.b.c', {}],
    ['nor an empty one', '', {}],
    ['nor a JWT of no object', `${btoa('{}')}.${btoa('null')}.`, {}],
  ];
  for (const [name, token, hints] of cases) test(name, () => assert.deepEqual(readHints(new Secret(token)), hints));
});
