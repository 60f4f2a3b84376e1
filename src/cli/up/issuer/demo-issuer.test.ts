import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { Secret } from '../../../lib/secret.ts';
import { IssuerClient, OWN_GRANT_TYPE, type Tokens } from '../../client/issuer.ts';
import { freePort } from '../plan.ts';
import { startDemoIssuer } from './demo-issuer.ts';
import { PEOPLE } from './people.ts';
import { CLIENT_ID } from './provider.ts';

async function start(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-issuer-'));
  const file = join(directory, 'issuer.json');
  const port = await freePort(20_000 + (process.pid % 20_000), new Set());
  let issuer = await startDemoIssuer(port, file);
  t.after(async () => {
    await issuer.stop();
    rmSync(directory, { recursive: true });
  });
  const restart = async () => {
    await issuer.stop();
    issuer = await startDemoIssuer(port, file);
  };
  const client = await IssuerClient.discover(issuer.url, CLIENT_ID);
  return { url: issuer.url, file, client, restart };
}

const alice = (client: IssuerClient) => client.withPassword('alice', new Secret('alice'));
const refreshOf = ({ refreshToken }: Tokens) => refreshToken ?? new Secret('none');

test('demo issuer: a password login returns tokens that managers can verify', async (t) => {
  const { url, client } = await start(t);
  const { accessToken, refreshToken } = await alice(client);
  const keys = createRemoteJWKSet(new URL(`${url}/jwks`));
  const { payload } = await jwtVerify(accessToken.reveal(), keys, { issuer: url });
  assert.equal(payload.sub, PEOPLE[0]?.sub);
  assert.deepEqual([payload['name'], payload['group_membership']], ['Alice', ['/oscar']]);
  assert.ok(refreshToken);
  await assert.rejects(client.withPassword('alice', new Secret('bob')), /rejected the user name or password/);
});

test('demo issuer: the grant of a service and the grant of the login are independent', async (t) => {
  const { client } = await start(t);
  assert.ok(client.offers(OWN_GRANT_TYPE));
  const login = await alice(client);
  const own = await client.ownGrant(login.accessToken);
  const renewed = await client.refresh(refreshOf(own));
  const again = await client.refresh(refreshOf(login));
  await client.revoke(refreshOf(renewed));
  await client.refresh(refreshOf(again));
  await assert.rejects(client.ownGrant(new Secret('not a token')), /rejected the request/);
});

test('demo issuer: refresh tokens rotate, and reuse revokes the grant', async (t) => {
  const { client } = await start(t);
  const first = await alice(client);
  const second = await client.refresh(refreshOf(first));
  assert.notEqual(refreshOf(second).reveal(), refreshOf(first).reveal());
  await assert.rejects(client.refresh(refreshOf(first)));
  await assert.rejects(client.refresh(refreshOf(second)));
});

test('demo issuer: logins survive a restart, in a file that only its owner can read', async (t) => {
  const { client, restart, file } = await start(t);
  const { refreshToken } = await client.refresh(refreshOf(await alice(client)));
  await restart();
  await client.refresh(refreshToken ?? new Secret(''));
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.ok(!readFileSync(file, 'utf8').includes('AccessToken'), 'what is short-lived is not kept');
});

test('demo issuer: a device is approved on the page of the issuer, not from another page', async (t) => {
  const { url, client } = await start(t);
  const { promise: invited, resolve } = Promise.withResolvers<{ address: string; code: string }>();
  const tokens = client.withDevice(resolve);
  const { address, code } = await invited;
  assert.match(await (await fetch(address)).text(), new RegExp(`value="${code}"`));

  const click = (origin: string, user_code: string) =>
    fetch(`${url}/device`, {
      method: 'POST',
      headers: { origin },
      body: new URLSearchParams({ user_code, as: 'bob' }),
    });
  assert.equal((await click('https://evil.example.org', code)).status, 403);
  assert.equal((await click(url, 'BBBB-BBBB')).status, 400);
  assert.equal((await click(url, code)).status, 200);
  assert.equal((await click(url, code)).status, 400, 'once');
  const claims = JSON.parse(
    Buffer.from((await tokens).accessToken.reveal().split('.')[1] ?? '', 'base64url').toString(),
  ) as { name: string };
  assert.equal(claims.name, 'Bob');
  await client.refresh(refreshOf(await tokens));
});

test('demo issuer: the code in the URL is escaped on the page', async (t) => {
  const { url } = await start(t);
  const page = await (await fetch(`${url}/device?user_code=${encodeURIComponent('"><script>')}`)).text();
  assert.ok(!page.includes('<script>'));
});
