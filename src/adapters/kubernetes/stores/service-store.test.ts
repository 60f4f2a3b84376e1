import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { ClusterStore } from '../../../model/service/index.ts';
import { sampleService } from '../../../ports/conformance/sample-service.ts';
import { created } from '../../../ports/conformance/service-store-under-test.ts';
import { Namespaces } from '../namespaces/namespaces.ts';
import { PullSecrets } from '../namespaces/pull-secrets.ts';
import { FakeApi } from '../runner/fake-api.fixture.ts';
import { Reservations } from './reservations.ts';
import { KubernetesServiceStore } from './service-store.ts';

const OBJECT_STORE: ClusterStore = { endpoint: 'http://minio', region: 'us-east-1', verify: true };

/** Two managers of a cluster. While its server is mute, neither is notified of the other's writes. */
async function scene(t: TestContext) {
  const server = new FakeApi();
  const open = async () => {
    const report = (problem: unknown) => assert.fail(String(problem));
    const pullSecrets = new PullSecrets(server.api, { manager: 'oscar', names: [], report });
    const store = new KubernetesServiceStore(server.api, {
      namespaces: new Namespaces(server.api, {
        manager: 'oscar',
        services: 'oscar-svc',
        controllerServiceAccount: 'oscar-sa',
        knative: false,
        kueue: false,
        closedNetworks: [],
        pullSecrets,
      }),
      pullSecrets,
      reservations: new Reservations(server.api, 'oscar', Date.now),
      objectStore: OBJECT_STORE,
      adoptSecrets: async () => undefined,
      watch: { watchMs: 60_000, silenceMs: 60_000 },
      report,
    });
    await store.open();
    t.after(() => store.close());
    return store;
  };
  return { server, here: await open(), there: await open() };
}

const names = ({ items }: { items: readonly { service: { definition: { name: string } } }[] }) =>
  items.map(({ service }) => service.definition.name);

test('service store: fresh reads ask the server, not the cache', async (t) => {
  const { server, here, there } = await scene(t);
  server.isMute = true;
  const made = await created(there, sampleService('cow'));
  assert.deepEqual(names(await here.list({})), []);
  assert.deepEqual(names(await here.list({ fresh: true })), ['cow']);
  const changed = await there.replace(sampleService('cow', { definition: { cpu: '2' } }), made.version);
  assert.equal((await here.get('cow'))?.version, made.version);
  assert.equal((await here.getFresh('cow'))?.version, changed.version);
  await there.remove('cow', changed.version);
  assert.deepEqual(names(await here.list({ fresh: true })), []);
  assert.equal(await here.getFresh('cow'), undefined);
});

test('service store: after a conflict the cache has the newer version, so a retry can succeed', async (t) => {
  const { server, here, there } = await scene(t);
  const made = await created(there, sampleService('cow'));
  await here.getFresh('cow');
  server.isMute = true;
  const first = await there.replace(sampleService('cow', { definition: { cpu: '2' } }), made.version);
  await assert.rejects(here.replace(sampleService('cow'), made.version), { code: 'conflict' });
  assert.equal((await here.get('cow'))?.version, first.version);
  const second = await there.replace(sampleService('cow', { definition: { cpu: '3' } }), first.version);
  await assert.rejects(here.remove('cow', first.version), { code: 'conflict' });
  assert.equal((await here.get('cow'))?.version, second.version);
});
