import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { LocalCapacity } from '../../adapters/local-runner/index.ts';
import { EmbeddedStore } from '../../adapters/object-stores/embedded/index.ts';
import { StoreCount } from '../../buckets/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { ObjectStore } from '../../ports/index.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { singleProcess } from '../status-view.ts';
import { ADMIN, ALICE, addJob, CAROL, openTestCluster, serve } from './metrics.fixture.ts';
import { type StatusDeps, statusRoutes } from './status.ts';

const NOW = Date.parse('2026-11-16T12:00:00Z');

async function start(t: TestContext, more: Partial<StatusDeps> = {}) {
  const cluster = openTestCluster(t, () => NOW);
  const capacity = new LocalCapacity({
    name: 'here',
    cpu: 4_000,
    memory: 8_192,
    used: () => ({ cpu: 1_500, memory: 192 }),
  });
  capacity.reserve('demo/1', { cpu: 1_000, memory: 4_096, gpu: 0 });
  await addJob(cluster.jobs, { service: 'demo', acceptedAt: NOW, state: 'running' });
  await addJob(cluster.jobs, { service: 'demo', acceptedAt: NOW, state: 'queued' });
  await addJob(cluster.jobs, { service: 'demo', acceptedAt: NOW });
  const get = await serve(t, (app, authenticator) =>
    statusRoutes(app, {
      authenticator,
      capacity,
      jobs: cluster.jobs,
      deployment: singleProcess('oscar', NOW),
      oidc: { enabled: true, issuers: [], groups: [] },
      ...more,
    }),
  );
  return { get, cluster };
}

test('status: every user sees what is free, administrators and operators also what runs', async (t) => {
  const { get } = await start(t);
  for (const as of [ADMIN, ALICE, CAROL]) {
    const { status, type, text } = await get('/system/status', as);
    assert.deepEqual([status, type], [200, 'application/json; charset=utf-8']);
    const { cluster, oscar } = JSON.parse(text);
    assert.deepEqual(Object.values(cluster.metrics.cpu), [2_500, 2_500, 3_000, 3_000, 2_500, 2_500]);
    assert.deepEqual(Object.values(cluster.metrics.memory), [8_000, 8_000, 4_096, 4_096]);
    assert.equal(cluster.nodes[0].name, 'here');
    const states = { Failed: 0, Pending: 1, Running: 1, Succeeded: 1, Unknown: 0 };
    assert.deepEqual(
      [oscar.jobs_count, oscar.pods],
      as === ALICE ? [0, { total: 0, states: {} }] : [3, { total: 3, states }],
    );
  }
});

test('status: administrators and operators see how much is in the store', async (t) => {
  const cluster = openTestCluster(t, () => NOW);
  const keys = { accessKey: 'manager', secret: new Secret('manager-secret') };
  const server = openObjectStore({
    directory: join(temporaryDirectory(t), 'objects'),
    region: 'us-east-1',
    manager: keys,
    seal: cluster.seal,
    report: (error) => assert.fail(String(error)),
  });
  t.after(() => server.close());
  const objects = new EmbeddedStore({ server, endpoint: 'http://store.example' });
  for (const name of ['one', 'two']) {
    const bucket = { name, owner: 'alice', ownerName: 'Alice', visibility: 'private', allowedUsers: [] } as const;
    await objects.createBucket(bucket);
    await objects.ensureFolder(name, 'in');
  }
  const { get } = await start(t, { stored: new StoreCount(objects, { goodMs: 0 }) });
  const minio = async (as: string) => JSON.parse((await get('/system/status', as)).text).minio;
  assert.deepEqual(await minio(ADMIN), { buckets_count: 2, total_objects: 2 });
  assert.deepEqual(await minio(CAROL), { buckets_count: 2, total_objects: 2 });
  assert.deepEqual(await minio(ALICE), { buckets_count: 0, total_objects: 0 });
});

test('what is in a store elsewhere is counted once in a while, and after a change that was made here', async (t) => {
  let asked = 0;
  let changes: (() => Promise<unknown>) | undefined;
  const objects = { buckets: async () => ({ items: (asked++, []) }) } as unknown as ObjectStore;
  const get = await serve(t, (app, authenticator) => {
    app.put('/system/buckets', async () => ({}));
    statusRoutes(app, {
      authenticator,
      capacity: { nodes: () => [] },
      jobs: { counts: async () => new Map() },
      stored: new StoreCount(objects, { goodMs: 60_000 }),
      deployment: singleProcess('oscar', NOW),
      oidc: { enabled: true, issuers: [], groups: [] },
    });
    changes = () => app.inject({ method: 'PUT', url: '/system/buckets' });
  });
  const ask = () => get('/system/status', ADMIN);
  await ask();
  await ask();
  assert.equal(asked, 1);
  await changes?.();
  await ask();
  await get('/system/status', ALICE);
  assert.equal(asked, 2);
});

test('a failure is said in JSON; credentials that are missing get no body', async (t) => {
  const broken = { counts: () => Promise.reject(new Error('the disk is gone')) };
  const { get } = await start(t, { jobs: broken });
  const { status, type, text } = await get('/system/status', ADMIN);
  assert.deepEqual([status, type], [500, 'application/json; charset=utf-8']);
  assert.match(JSON.parse(text).error, /^internal error of the manager: report request/);
  assert.deepEqual(await get('/system/status'), { status: 401, type: null, text: '' });
  assert.equal((await get('/system/status', ALICE)).status, 200);
});
