import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Config } from '../../config/index.ts';
import { Secret } from '../../lib/secret.ts';
import { originStoreAccess } from './origin-contact.ts';

const cases = [
  {
    name: 'origin store: the store that the operator registered for the cluster is not guarded',
    store: 'https://s.lab',
    guarded: false,
  },
  {
    name: 'origin store: another spelling of the same address is not guarded',
    store: 'https://S.lab:443/',
    guarded: false,
  },
  { name: 'origin store: another port of the same host is guarded', store: 'https://s.lab:9000', guarded: true },
  { name: 'origin store: the same host without TLS is guarded', store: 'http://s.lab', guarded: true },
  { name: 'origin store: the store of another cluster is guarded', store: 'https://s.lab', of: 'd', guarded: true },
  { name: 'origin store: the store of an unknown cluster is guarded', store: 'https://s.lab', of: 'x', guarded: true },
  {
    name: 'origin store: our own store is guarded if another manager names it',
    store: 'http://own:9000',
    guarded: true,
  },
  {
    name: 'origin store: our own store is not guarded if we are the origin',
    store: 'http://own:9000',
    endpoint: 'https://me',
    guarded: false,
  },
  {
    name: 'origin store: other stores are guarded even if we are the origin',
    store: 'http://10.0.0.1',
    endpoint: 'https://me',
    guarded: true,
  },
  { name: 'origin store: an invalid address is guarded', store: 'nonsense', guarded: true },
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
