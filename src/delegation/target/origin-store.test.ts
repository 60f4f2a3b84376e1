import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Config } from '../../config/index.ts';
import { Secret } from '../../lib/secret.ts';
import { originStoreAccess } from './origin-store.ts';

const cases = [
  {
    name: 'the store that the operator names for this cluster is dialled freely',
    store: 'https://s.lab',
    guarded: false,
  },
  { name: 'however it is written', store: 'https://S.lab:443/', guarded: false },
  { name: 'its neighbour is dialled with care', store: 'https://s.lab:9000', guarded: true },
  { name: 'the same host without TLS is dialled with care', store: 'http://s.lab', guarded: true },
  { name: 'the store of another cluster is dialled with care', store: 'https://s.lab', of: 'd', guarded: true },
  { name: 'one of a cluster that nobody knows is dialled with care', store: 'https://s.lab', of: 'x', guarded: true },
  { name: 'our own is dialled with care when another manager names it', store: 'http://own:9000', guarded: true },
  { name: 'and freely when that manager is we', store: 'http://own:9000', endpoint: 'https://me', guarded: false },
  { name: 'which does not help any other', store: 'http://10.0.0.1', endpoint: 'https://me', guarded: true },
  { name: 'what is no address is dialled with care', store: 'nonsense', guarded: true },
];
for (const { name, store, of = 'c', endpoint = 'https://them', guarded } of cases) {
  test(name, () => {
    const key = new Secret('k');
    const access = originStoreAccess(
      { endpoint: store, region: 'eu', verify: true, accessKey: key, secretKey: key, sessionToken: key, expiresAt: 7 },
      { clusterId: of, service: 'cow', endpoint, store },
      {
        registered: new Map([
          ['c', { store: 'https://s.lab' }],
          ['d', {}],
        ]) as unknown as Config['clusters'],
        isOwn: (address) => address === 'https://me',
        own: ['http://own:9000'],
      },
    );
    const keys = { accessKey: key, secretKey: key, sessionToken: key, expiresAt: 7 };
    assert.deepEqual(access, { type: 's3', endpoint: store, region: 'eu', verify: true, ...keys, guarded });
  });
}
