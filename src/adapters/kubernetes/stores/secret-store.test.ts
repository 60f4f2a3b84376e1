import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { FakeApi } from '../runner/fake-api.fixture.ts';
import type { GoManagerSecrets } from './go-manager-secrets.ts';
import { KubernetesSecretStore } from './secret-store.ts';

const keys = (secretKey: string) => ({ accessKey: new Secret('alice'), secretKey: new Secret(secretKey) });

test('secret store: importing a secret of a Go manager does not overwrite what another manager has written meanwhile', async () => {
  const server = new FakeApi();
  const options = { namespace: 'oscar', declared: () => undefined };
  const other = new KubernetesSecretStore(server.api, options);
  const goManagerSecrets = {
    find: async () => {
      await other.put('user', 'alice', keys('rotated'));
      return keys('left');
    },
  } as unknown as GoManagerSecrets;
  const here = new KubernetesSecretStore(server.api, { ...options, goManagerSecrets });
  const found = await here.get('user', 'alice');
  assert.equal(found?.values['secretKey']?.reveal(), 'rotated');
  assert.deepEqual(await other.get('user', 'alice'), found);
});
