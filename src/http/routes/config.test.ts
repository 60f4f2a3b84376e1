import assert from 'node:assert/strict';
import { test } from 'node:test';
import fastify from 'fastify';
import { createAuthenticator } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { NodeCapacity, SettingsStore } from '../../ports/index.ts';
import { CLUSTER_CONFIG } from './cluster-config.fixture.ts';
import { configRoutes } from './config.ts';

const node = (gpu: number): NodeCapacity => ({
  name: 'a',
  ready: true,
  total: { cpu: 1_000, memory: 1, gpu },
  requested: { cpu: 0, memory: 0, gpu: 0 },
  used: { cpu: 0, memory: 0 },
});

test('GPUs are there as soon as a node has one', async (t) => {
  const nodes: NodeCapacity[] = [];
  const app = fastify();
  t.after(() => app.close());
  configRoutes(app, {
    authenticator: createAuthenticator({ admin: { username: 'oscar', password: new Secret('correct horse') } }),
    clusterConfig: CLUSTER_CONFIG,
    nodes: () => nodes,
    store: { endpoint: '', verify: true, region: '' },
    keysOf: async () => ({ accessKey: new Secret('a'), secretKey: new Secret('b') }),
    rotateKeys: () => Promise.reject(new Error('not used for the document')),
    settings: { read: async () => ({ settings: { allowedImageRepositories: [] } }) } as unknown as SettingsStore,
  });
  const authorization = `Basic ${Buffer.from('oscar:correct horse').toString('base64')}`;
  const told = async () => {
    const { config } = (await app.inject({ url: '/system/config', headers: { authorization } })).json();
    assert.deepEqual(Object.keys(config), Object.keys(CLUSTER_CONFIG), 'in the order that clients know');
    return config.gpu_available as boolean;
  };
  assert.equal(await told(), false);
  nodes.push(node(0));
  assert.equal(await told(), false);
  nodes.push(node(2));
  assert.equal(await told(), true);
});
