import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../../../test/support/temporary-directory.ts';
import { readEndpoint } from './endpoint.ts';

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
    message: new RegExp(`${missing} names no cluster`),
  });
});

test('endpoint: address, certificate authority and token come from the kubeconfig', async (t) => {
  const file = join(temporaryDirectory(t), 'kubeconfig');
  const cluster = { server: 'https://127.0.0.1:1234/base', 'certificate-authority-data': 'Y2E=' };
  const config = {
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token: 't0ken' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(file, JSON.stringify(config));
  const endpoint = await readEndpoint(file);
  assert.equal(endpoint.url.href, 'https://127.0.0.1:1234/base');
  const { headers, ...tls } = await endpoint.streamOptions();
  assert.deepEqual(headers, { Authorization: 'Bearer t0ken' });
  assert.equal(String((tls as { ca?: unknown }).ca), 'ca');
  endpoint.close();
});
