import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, beforeEach, test } from 'node:test';
import { FROM_GO } from '../../src/adapters/kubernetes/stores/from-go.fixture.ts';
import { namespaceFor } from '../../src/identity/index.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { startTestbed } from './testbed.ts';

/**
 * The layout of objects in the API, for users of `kubectl` and for a Go manager on the same cluster
 * (docs/operation.md#what-is-where).
 */
const testbed = await startTestbed();
after(() => testbed.plane.stop());
beforeEach(() => testbed.wipe());
const { admin } = testbed.plane;

interface Seen {
  metadata: {
    name: string;
    uid: string;
    resourceVersion?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    ownerReferences?: { kind: string; uid: string }[];
  };
  data?: Record<string, string>;
  rules?: unknown[];
  subjects?: unknown[];
}

const seen = async (path: string) => (await admin.do('GET', path)) as unknown as Seen;
const statusOf = async (path: string) => (await admin.ask('GET', path)).status;
const ALICE = 'alice-0001@idp.example';

test("namespaces: a user's namespace names the user and has the manager's rights", async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const wanted = namespaceFor(ALICE, 'oscar-svc');
  assert.equal(await cluster.services.claimNamespace(ALICE, wanted), wanted);
  const { metadata } = await seen(`/api/v1/namespaces/${wanted}`);
  assert.equal(metadata.labels?.['app.kubernetes.io/managed-by'], 'oscar');
  assert.equal(metadata.labels?.['oscar.grycap.upv.es/lifecycle'], 'active');
  assert.equal(metadata.labels?.['oscar.grycap.upv.es/owner-hash'], createHash('sha1').update(ALICE).digest('hex'));
  assert.equal(metadata.annotations?.['oscar.grycap.upv.es/owner'], ALICE);
  const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${wanted}`;
  assert.equal((await seen(`${rbac}/roles/oscar-controller`)).rules?.length, 4);
  assert.deepEqual((await seen(`${rbac}/rolebindings/oscar-controller-binding`)).subjects, [
    { kind: 'ServiceAccount', name: 'oscar-sa', namespace: 'oscar' },
  ]);
});

test('namespaces: changed rights are restored at the next start', async (t) => {
  const role = '/apis/rbac.authorization.k8s.io/v1/namespaces/oscar-svc-mended/roles/oscar-controller';
  const first = await testbed.open();
  await first.services.claimNamespace('mended', 'oscar-svc-mended');
  await first.close();
  await admin.do('PATCH', role, { rules: [] }, 'application/merge-patch+json');
  const second = await testbed.open();
  t.after(second.close);
  await second.services.claimNamespace('mended', 'oscar-svc-mended');
  assert.equal((await seen(role)).rules?.length, 4);
});

test('namespaces: the network policy follows the settings and is not rewritten at each start', async (t) => {
  const policy = '/apis/networking.k8s.io/v1/namespaces/oscar-svc-closed/networkpolicies/oscar-closed-networks';
  const closedNetworks = [{ address: '169.254.169.254', prefix: 32, family: 'ipv4' }] as const;
  const versions: (string | undefined)[] = [];
  for (let start = 0; start < 2; start++) {
    const cluster = await testbed.open({ closedNetworks });
    t.after(cluster.close);
    await cluster.services.claimNamespace('closed', 'oscar-svc-closed');
    versions.push((await seen(policy)).metadata.resourceVersion);
  }
  assert.equal(versions[0], versions[1]);
  assert.match(JSON.stringify(await seen(policy)), /"except":\["169.254.169.254\/32"\]/);
});

test('namespaces: users whose shortened names are equal have different, stable namespaces (S18)', async (t) => {
  const [first, second, third] = ['same-uid-1', 'same-uid-2', 'same-uid-3'];
  const wanted = 'oscar-svc-same-uid';
  const homes: string[][] = [];
  for (let start = 0; start < 2; start++) {
    const cluster = await testbed.open();
    t.after(cluster.close);
    homes.push([]);
    for (const uid of [first, second, third])
      homes.at(-1)?.push(await cluster.services.claimNamespace(uid ?? '', wanted));
  }
  const [before, again] = homes;
  assert.deepEqual(again, before);
  assert.equal(new Set(before).size, 3);
  assert.equal(before?.[0], wanted);
  for (const [index, uid] of [first, second, third].entries()) {
    const { metadata } = await seen(`/api/v1/namespaces/${before?.[index]}`);
    assert.equal(metadata.annotations?.['oscar.grycap.upv.es/owner'], uid);
  }
});

test('namespaces: concurrent users with the same shortened name get different ones', async (t) => {
  const clusters = await Promise.all([testbed.open(), testbed.open()]);
  for (const cluster of clusters) t.after(cluster.close);
  const uids = ['rival-a', 'rival-b', 'rival-c', 'rival-d'];
  const homes = await Promise.all(
    uids.map(async (uid, i) => clusters[i % 2]?.services.claimNamespace(uid, 'oscar-svc-rival')),
  );
  assert.equal(new Set(homes).size, uids.length);
  for (const [index, uid] of uids.entries()) {
    const { metadata } = await seen(`/api/v1/namespaces/${homes[index]}`);
    assert.equal(metadata.annotations?.['oscar.grycap.upv.es/owner'], uid);
  }
});

test('namespaces: one of another program is not used', async (t) => {
  await admin.do('POST', '/api/v1/namespaces', { metadata: { name: 'somebody-elses' } });
  const cluster = await testbed.open();
  t.after(cluster.close);
  const home = await cluster.services.claimNamespace('mallory', 'somebody-elses');
  assert.match(home, /^somebody-elses-[0-9a-f]{10}$/);
  assert.equal((await seen('/api/v1/namespaces/somebody-elses')).metadata.annotations, undefined);
});

test('services: a created service reports its namespace', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  await cluster.services.claimNamespace('first-here', 'oscar-svc-shared');
  const service = sampleService('cow', { owner: 'second-here', namespace: 'oscar-svc-shared' });
  const record = await created(cluster.services, service);
  assert.match(record.service.namespace, /^oscar-svc-shared-[0-9a-f]{10}$/);
  assert.equal(await statusOf('/api/v1/namespaces/oscar-svc-shared/configmaps/cow'), 404);
  assert.equal((await cluster.services.get('cow'))?.service.namespace, record.service.namespace);
});

test('services: a ConfigMap and its PodTemplate are created and deleted together', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const labels = { team: 'a', 'not a legal label': 'x' };
  const { version } = await created(cluster.services, sampleService('cow', { definition: { labels } }));
  const definition = await seen('/api/v1/namespaces/oscar-svc/configmaps/cow');
  assert.equal(definition.metadata.labels?.['oscar_service'], 'cow');
  assert.deepEqual(Object.keys(definition.data ?? {}), ['function_config.yaml', 'script.sh']);
  const marker = await seen('/api/v1/namespaces/oscar-svc/podtemplates/cow');
  assert.equal(marker.metadata.labels?.['team'], 'a');
  assert.equal(marker.metadata.labels?.['oscar_service'], 'cow');
  assert.equal(marker.metadata.ownerReferences?.[0]?.uid, definition.metadata.uid);

  await cluster.services.remove('cow', version);
  assert.equal(await statusOf('/api/v1/namespaces/oscar-svc/configmaps/cow'), 404);
  assert.equal(await statusOf('/api/v1/namespaces/oscar-svc/podtemplates/cow'), 404);
});

test('services: a PodTemplate that a killed manager did not create is created later', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const { version } = await created(cluster.services, sampleService('cow'));
  const path = '/api/v1/namespaces/oscar-svc/podtemplates/cow';
  const { uid } = (await seen(path)).metadata;
  await cluster.reconcileCompanions(t.signal);
  assert.equal((await seen(path)).metadata.uid, uid);
  await admin.do('DELETE', path);
  await cluster.reconcileCompanions(t.signal);
  assert.equal((await seen(path)).metadata.labels?.['oscar_service'], 'cow');
  await cluster.services.remove('cow', version);
  assert.equal(await statusOf(path), 404);
});

test('services: the reservation is removed when the service exists', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  await cluster.services.reserve('dog', 'u');
  await created(cluster.services, sampleService('cow'));
  assert.equal(await statusOf('/api/v1/namespaces/oscar/configmaps/oscar-name-dog'), 200);
  assert.equal(await statusOf('/api/v1/namespaces/oscar/configmaps/oscar-name-cow'), 404);
});

test('services: one of a Go manager is visible, reserves its name, and can be updated and deleted', async (t) => {
  const namespace = FROM_GO.metadata.namespace ?? '';
  await admin.ask('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
  const cluster = await testbed.open();
  t.after(cluster.close);
  const { name, labels } = FROM_GO.metadata;
  await admin.do('POST', `/api/v1/namespaces/${namespace}/configmaps`, {
    metadata: { name, labels },
    data: FROM_GO.data,
  });
  assert.equal(await cluster.services.reserve('plants', 'ours'), 'taken');
  const record = await cluster.services.get('plants');
  assert.ok(record);
  const definition = { ...record.service.definition, cpu: '2' };
  const changed = await cluster.services.replace({ ...record.service, definition }, record.version);
  assert.equal(changed.service.uid, record.service.uid);
  const { data } = await seen(`/api/v1/namespaces/${namespace}/configmaps/plants`);
  assert.match(data?.['function_config.yaml'] ?? '', /\ncpu: "2"\n/);
  await cluster.services.remove('plants', changed.version);
  assert.notEqual(await cluster.services.reserve('plants', 'ours'), 'taken');
});

test('secrets: those of a service are a Secret in its namespace, with plain keys for its pods', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  await created(cluster.services, sampleService('cow'));
  await cluster.secrets.put('service', 'oscar-svc/cow', { API_KEY: new Secret('s3cret') });
  const { data } = await seen('/api/v1/namespaces/oscar-svc/secrets/cow');
  assert.deepEqual(data, { API_KEY: Buffer.from('s3cret').toString('base64') });
});

test("secrets: all other kinds are in the manager's namespace, under names that no service can have (S15)", async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  for (const room of ['user', 'grant', 'credentials', 'member', 'manager'] as const) {
    await cluster.secrets.put(room, 'minio', { key: new Secret(`${room}'s`) });
  }
  const { items } = (await admin.do('GET', '/api/v1/secrets')) as unknown as { items: Seen[] };
  assert.equal(items.length, 5);
  for (const { metadata } of items) {
    assert.equal((metadata as { namespace?: string }).namespace, 'oscar');
    assert.match(metadata.name, /^oscar-[a-z]+-[0-9a-f]{40}$/);
    assert.ok(metadata.name.length > 39);
  }
});

test('secrets: a Secret that does not belong to the service is not shown, overwritten or deleted (S15)', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  await cluster.services.claimNamespace('cluster_admin', 'oscar-svc');
  const stringData = { accessKey: 'root', secretKey: 'of the store' };
  await admin.do('POST', '/api/v1/namespaces/oscar-svc/secrets', { metadata: { name: 'minio' }, stringData });
  const key = 'oscar-svc/minio';
  const secrets = { A: new Secret('1') };
  assert.equal(await cluster.secrets.get('service', key), undefined);
  await cluster.secrets.remove('service', key);
  const refused = {
    code: 'conflict',
    message: /Secret "minio" in namespace oscar-svc does not belong to this service/,
  };
  await assert.rejects(cluster.secrets.put('service', key, secrets), refused);
  await assert.rejects(cluster.secrets.put('service', key, secrets, 'absent'), refused);
  const { data } = await seen('/api/v1/namespaces/oscar-svc/secrets/minio');
  assert.equal(data?.['accessKey'], Buffer.from('root').toString('base64'));
});

test('secrets: the Secret that a Go manager created for a service is used', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const environment = { variables: {}, secrets: { API_KEY: '' } };
  await created(cluster.services, sampleService('cow', { definition: { environment } }));
  const stringData = { API_KEY: 'from Go' };
  await admin.do('POST', '/api/v1/namespaces/oscar-svc/secrets', { metadata: { name: 'cow' }, stringData });
  const record = await cluster.secrets.get('service', 'oscar-svc/cow');
  assert.equal(record?.values['API_KEY']?.reveal(), 'from Go');
});

test('settings: they are a JSON list in a ConfigMap whose other keys are kept', async (t) => {
  const cluster = await testbed.open();
  t.after(cluster.close);
  const path = '/api/v1/namespaces/oscar/configmaps';
  const data = { other: 'kept', allowed_image_repositories: '["ghcr.io/grycap"]' };
  await admin.do('POST', path, { metadata: { name: 'config.yaml' }, data });
  const { settings, version } = await cluster.settings.read();
  assert.deepEqual(settings.allowedImageRepositories, ['ghcr.io/grycap']);
  await cluster.settings.write({ allowedImageRepositories: ['a', 'b'] }, version);
  assert.deepEqual((await seen(`${path}/config.yaml`)).data, {
    other: 'kept',
    allowed_image_repositories: '["a","b"]',
  });

  await admin.do(
    'PATCH',
    `${path}/config.yaml`,
    { data: { allowed_image_repositories: '[' } },
    'application/merge-patch+json',
  );
  await assert.rejects(cluster.settings.read(), { code: 'damaged', message: /correct it/ });
});

test('replicas: a change of one manager is visible at the other', async (t) => {
  const [one, other] = await Promise.all([testbed.open(), testbed.open()]);
  t.after(one.close);
  t.after(other.close);
  const { version } = await created(one.services, sampleService('cow'));
  assert.ok(await other.services.get('cow'), 'a cache miss must ask the server');
  assert.equal(await other.services.reserve('cow', 'another'), 'taken');
  const changed = await other.services.replace(sampleService('cow', { definition: { cpu: '2' } }), version);
  await eventually(async () => assert.equal((await one.services.get('cow'))?.version, changed.version));
  await assert.rejects(one.services.replace(sampleService('cow'), version), { code: 'conflict' });
  await one.services.remove('cow', changed.version);
  await eventually(async () => assert.equal(await other.services.get('cow'), undefined));
});

test('cache: reads make no requests, and a thousand services are listed in pages', async (t) => {
  const count = 1_050;
  const one = await testbed.open();
  t.after(one.close);
  const { namespace } = (await created(one.services, sampleService('s-0'))).service;
  const { data } = await seen(`/api/v1/namespaces/${namespace}/configmaps/s-0`);
  for (let begin = 1; begin < count; begin += 50) {
    const batch = Array.from({ length: Math.min(50, count - begin) }, (_, i) => `s-${begin + i}`);
    await Promise.all(
      batch.map((name) =>
        admin.do('POST', `/api/v1/namespaces/${namespace}/configmaps`, {
          metadata: { name, labels: { oscar_service: name } },
          data,
        }),
      ),
    );
  }
  const two = await testbed.open();
  t.after(two.close);
  await eventually(() => assert.ok(two.metrics().live));
  const { requests } = two.metrics();
  assert.equal(requests, 3 + 1 + 2 + 1, 'three pages, no jobs, two watches, and the version of the server');
  const { items } = await two.services.list({ limit: 10_000 });
  assert.equal(items.length, count);
  for (const { service } of items.slice(0, 100)) await two.services.get(service.definition.name);
  assert.equal(two.metrics().requests, requests);
});

test('rate limit: it is the configured one, and the waiting time is measured', async (t) => {
  const cluster = await testbed.open({ rate: { perSecond: 100, burst: 1 } });
  t.after(cluster.close);
  await Promise.all(Array.from({ length: 10 }, () => cluster.settings.read()));
  const { requests, waitedMs } = cluster.metrics();
  assert.ok(requests >= 11);
  assert.ok(waitedMs > 0);
});
