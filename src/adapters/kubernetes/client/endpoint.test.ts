import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import { TEST_CERTIFICATE, TEST_KEY } from '../../../lib/http/certificate.fixture.ts';
import { readEndpoint } from './endpoint.ts';
import { readServiceAccount } from './kubeconfig.ts';

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** Writes a kubeconfig with one cluster and one user, and returns its path. */
function write(t: TestContext, cluster: object, user: object = {}): string {
  const file = join(temporaryDirectory(t), 'kubeconfig');
  const config = {
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const SERVER = { server: 'https://127.0.0.1:1234/base' };

async function headersFor(file: string) {
  return (await (await readEndpoint(file)).connect()).headers;
}

test('endpoint: without a kubeconfig and outside of a pod, the error says what to set', async () => {
  await assert.rejects(readEndpoint(undefined), {
    code: 'unavailable',
    message: /name a kubeconfig file in KUBECONFIG/,
  });
});

test('endpoint: the error names a kubeconfig that is unreadable or names no cluster', async (t) => {
  const missing = join(temporaryDirectory(t), 'kubeconfig');
  await assert.rejects(readEndpoint(missing), { code: 'unavailable', message: new RegExp(`${missing}: .*ENOENT`) });
  writeFileSync(missing, '{"apiVersion":"v1","kind":"Config","clusters":[],"users":[],"contexts":[]}');
  await assert.rejects(readEndpoint(missing), {
    code: 'unavailable',
    message: new RegExp(`${missing}: it names no cluster`),
  });
});

test('endpoint: the address comes from the kubeconfig, and a token, its file or a password authenticates', async (t) => {
  const endpoint = await readEndpoint(write(t, SERVER, { token: 't0ken' }));
  assert.equal(endpoint.url.href, 'https://127.0.0.1:1234/base');
  assert.deepEqual((await endpoint.connect()).headers, { authorization: 'Bearer t0ken' });
  assert.deepEqual(await headersFor(write(t, SERVER, { username: 'a', password: 'b' })), {
    authorization: `Basic ${base64('a:b')}`,
  });
  assert.deepEqual(await headersFor(write(t, SERVER)), {});
  const byFile = write(t, SERVER, { tokenFile: 'token' });
  writeFileSync(join(byFile, '../token'), 'from-file\n');
  assert.deepEqual(await headersFor(byFile), { authorization: 'Bearer from-file' });
});

test('endpoint: a rejected token is read again from its file', async (t) => {
  const file = write(t, SERVER, { tokenFile: 'token' });
  writeFileSync(join(file, '../token'), 'first');
  const endpoint = await readEndpoint(file);
  await endpoint.connect();
  writeFileSync(join(file, '../token'), 'second');
  assert.deepEqual((await endpoint.connect()).headers, { authorization: 'Bearer first' });
  endpoint.forgetCredentials();
  assert.deepEqual((await endpoint.connect()).headers, { authorization: 'Bearer second' });
});

test('endpoint: a credential plugin is run with the arguments and variables of the kubeconfig', async (t) => {
  const script = `printf '{"status":{"token":"%s-%s-%s"}}' "$1" "$EXTRA" "$(printf %s "$KUBERNETES_EXEC_INFO" | grep -c '"interactive":false')"`;
  const exec = {
    command: 'sh',
    args: ['-c', script, 'sh', 'one'],
    env: [{ name: 'EXTRA', value: 'two' }],
    apiVersion: 'v1',
  };
  assert.deepEqual(await headersFor(write(t, SERVER, { exec })), { authorization: 'Bearer one-two-1' });
});

test('endpoint: a credential plugin is run again after its expiry, and not before', async (t) => {
  const folder = temporaryDirectory(t);
  const tokens = (until: string) =>
    `echo x >> ${folder}/runs; printf '{"status":{"token":"%s","expirationTimestamp":"${until}"}}' $(wc -l < ${folder}/runs)`;
  const forEver = { command: 'sh', args: ['-c', tokens('9999-01-01T00:00:00Z')] };
  const lasting = await readEndpoint(write(t, SERVER, { exec: forEver }));
  await lasting.connect();
  assert.equal((await lasting.connect()).headers['authorization'], 'Bearer 1');
  const short = await readEndpoint(
    write(t, SERVER, { exec: { command: 'sh', args: ['-c', tokens('2001-01-01T00:00:00Z')] } }),
  );
  await short.connect();
  assert.equal((await short.connect()).headers['authorization'], 'Bearer 3');
});

test('endpoint: a credential plugin that is missing or answers nonsense is named, with the hint of the kubeconfig', async (t) => {
  const missing = { command: 'no-such-plugin', installHint: 'install it from the cloud' };
  await assert.rejects(headersFor(write(t, SERVER, { exec: missing })), {
    code: 'unavailable',
    message: /the credential plugin no-such-plugin failed: .*ENOENT.*\(install it from the cloud\)/,
  });
  await assert.rejects(headersFor(write(t, SERVER, { exec: { command: 'echo', args: ['{"status":{}}'] } })), {
    message: /neither a token nor a certificate/,
  });
});

const REJECTED: readonly (readonly [what: string, cluster: object, user: object, message: RegExp])[] = [
  ['an auth-provider', SERVER, { 'auth-provider': { name: 'oidc' } }, /use exec, a token or a certificate/],
  ['impersonation', SERVER, { token: 'x', as: 'other' }, /impersonation is not supported/],
  ['a server that is no URL', { server: 'nowhere' }, {}, /server is not a URL: "nowhere"/],
  ['an unknown kind of proxy', { ...SERVER, 'proxy-url': 'ftp://x' }, {}, /http, https or socks5: "ftp:\/\/x"/],
  ['a number in place of a text', { server: 7 }, {}, /server is not a text/],
];

for (const [what, cluster, user, message] of REJECTED) {
  test(`endpoint: a kubeconfig with ${what} is rejected`, async (t) => {
    await assert.rejects(readEndpoint(write(t, cluster, user)), { code: 'unavailable', message });
  });
}

test('endpoint: server and client verify each other by the certificates of the kubeconfig', async (t) => {
  const options = { key: TEST_KEY, cert: TEST_CERTIFICATE, ca: TEST_CERTIFICATE, requestCert: true };
  const server = https.createServer({ ...options, rejectUnauthorized: true }, (_request, response) =>
    response.end('ok'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close().closeAllConnections());
  const address = { server: `https://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const get = async (cluster: object, user: object) => {
    const endpoint = await readEndpoint(write(t, cluster, user));
    t.after(() => endpoint.close());
    const { client } = await endpoint.connect();
    return (await client.send({ method: 'GET', url: endpoint.url, maxBytes: 10 })).body.toString();
  };
  const certificate = {
    'client-certificate-data': base64(TEST_CERTIFICATE),
    'client-key-data': base64(TEST_KEY),
  };
  const trusted = { ...address, 'certificate-authority-data': base64(TEST_CERTIFICATE) };
  assert.equal(await get(trusted, certificate), 'ok');
  assert.equal(await get({ ...address, 'insecure-skip-tls-verify': true }, certificate), 'ok');
  await assert.rejects(get(address, certificate), { code: 'untrusted' });
  await assert.rejects(get({ ...trusted, 'tls-server-name': 'other.lab' }, certificate), { code: 'untrusted' });
  assert.equal(await get({ ...trusted, 'tls-server-name': 'localhost' }, certificate), 'ok');
  await assert.rejects(get(trusted, {}));
});

test('endpoint: in a pod, the service account authenticates and its token is read again', async (t) => {
  const folder = join(temporaryDirectory(t), 'serviceaccount');
  mkdirSync(folder);
  writeFileSync(join(folder, 'ca.crt'), TEST_CERTIFICATE);
  writeFileSync(join(folder, 'token'), 'one\n');
  const config = await readServiceAccount(
    { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' },
    folder,
  );
  assert.deepEqual([config.server.href, config.ca, config.verify], ['https://[fd00::1]:6443/', TEST_CERTIFICATE, true]);
  assert.deepEqual(await config.credentials(), { authorization: 'Bearer one' });
  writeFileSync(join(folder, 'token'), 'two');
  assert.deepEqual(await config.credentials(), { authorization: 'Bearer two' });
});
