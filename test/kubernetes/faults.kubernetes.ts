import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { parse } from 'yaml';
import type { KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import { Secret } from '../../src/lib/secret.ts';
import type { Version } from '../../src/lib/version.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { created } from '../../src/ports/conformance/service-store-under-test.ts';
import { StoreError } from '../../src/ports/index.ts';
import { GLOBAL_ROLE, GLOBAL_RULES } from './manager-rights.ts';
import { clusterOpeners } from './open-clusters.ts';
import { Proxy } from './proxy.ts';
import { SHORT_TIMEOUTS, startTestbed, type Testbed } from './testbed.ts';

/** Faults of an API server: managers report them, keep running, and recover without help. */
const testbed: Testbed = await startTestbed({ controllers: true });
after(() => testbed.plane.stop());
beforeEach(() => testbed.wipe());
const { plane } = testbed;
const { admin } = plane;

const withCpu = (name: string, cpu: number) => sampleService(name, { definition: { cpu: String(cpu) } });

const { behindProxy, direct } = clusterOpeners(testbed);

/** The value that is stored at the server. */
async function cpuOnServer(name: string): Promise<string | undefined> {
  const { status, body } = await admin.ask('GET', `/api/v1/namespaces/oscar-svc/configmaps/${name}`);
  if (status === 404) return undefined;
  return parse((body as { data: Record<string, string> }).data['function_config.yaml'] ?? '').cpu;
}

test('lost answer: a write is recognized as done, once', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const { services, journal, secrets, settings } = cluster;
  const lost = async <T>(write: () => Promise<T>): Promise<T> => {
    // Opens a connection whose next answer can be lost.
    await settings.read();
    proxy.loseAnswers();
    return write();
  };
  const service = sampleService('cow');
  const reservation = await lost(() => services.reserve('cow', service.uid));
  assert.ok(reservation !== 'taken');
  const made = await lost(() => services.create(reservation, service));
  const changed = await lost(() => services.replace(withCpu('cow', 7), made.version));
  assert.equal(await cpuOnServer('cow'), '7');
  await assert.rejects(services.replace(withCpu('cow', 8), made.version), { code: 'conflict' });
  await lost(() => services.remove('cow', changed.version));
  assert.equal(await cpuOnServer('cow'), undefined);

  const entry = await lost(() => journal.begin('k', { n: 0 }));
  const claimed = await lost(() => journal.claim('k', entry.version));
  assert.notEqual(claimed, 'busy');
  const advanced = await lost(() => journal.advance('k', claimed as Version, { n: 1 }));
  assert.deepEqual((await journal.read('k'))?.state, { n: 1 });
  await lost(() => journal.finish('k', advanced));
  assert.equal(await journal.read('k'), undefined);

  const put = await lost(() => secrets.put('user', 'alice', { key: new Secret('1') }, 'absent'));
  await lost(() => secrets.put('user', 'alice', { key: new Secret('2') }, put));
  assert.equal((await secrets.get('user', 'alice'))?.values['key']?.reveal(), '2');
  await lost(() => settings.write({ allowedImageRepositories: ['a'] }));
  assert.deepEqual((await settings.read()).settings.allowedImageRepositories, ['a']);
});

test('lost answer: a write is recognized as done even after a later write', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const { version } = await created(cluster.services, withCpu('cow', 1));
  const entry = await cluster.journal.begin('k', { n: 0 });

  proxy.loseAnswers({ refuse: true });
  const write = cluster.services.replace(withCpu('cow', 2), version);
  await eventually(async () => assert.equal(await cpuOnServer('cow'), '2'));
  const seen = await eventually(async () => {
    const record = await other.services.get('cow');
    assert.equal(record?.service.definition.cpu, '2');
    return record;
  });
  const third = await other.services.replace(withCpu('cow', 3), seen.version);
  proxy.open();
  const written = await write;
  assert.equal(written.service.definition.cpu, '2');
  await assert.rejects(cluster.services.replace(withCpu('cow', 4), written.version), { code: 'conflict' });
  assert.equal((await cluster.services.get('cow'))?.version, third.version);

  await cluster.settings.read();
  proxy.loseAnswers({ refuse: true });
  const claim = cluster.journal.claim('k', entry.version);
  proxy.open();
  assert.notEqual(await claim, 'busy');
});

test('API server killed during writes: none is lost or doubled', async (t) => {
  const cluster = await direct(t);
  const names = ['w1', 'w2', 'w3', 'w4'];
  const done = new AbortController();
  const counts = new Map<string, number>();
  const writers = names.map(async (name): Promise<void> => {
    let { version } = await created(cluster.services, withCpu(name, 1));
    for (let n = 2; !done.signal.aborted; n++) {
      // Every write succeeds: the client finds out the outcome of a lost answer, and there is no other writer.
      ({ version } = await cluster.services.replace(withCpu(name, n), version));
      counts.set(name, n);
    }
  });
  const writing = Promise.all(writers);
  const allBeyond = (least: number) =>
    Promise.race([
      writing,
      eventually(() => assert.ok(names.every((name) => (counts.get(name) ?? 0) > least)), 30_000),
    ]);
  await allBeyond(5);
  await plane.killApiServer();
  await plane.startApiServer();
  const before = Math.max(...counts.values());
  await allBeyond(before + 5);
  done.abort();
  await writing;
  for (const name of names) assert.equal(await cpuOnServer(name), String(counts.get(name)));
  await eventually(() => assert.ok(cluster.metrics().live));
});

test('watch: it resumes after a cut, and reads stay correct', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const { version } = await created(other.services, withCpu('cow', 1));
  await eventually(async () => assert.ok((await cluster.services.list({})).items.length === 1));
  proxy.refuse();
  await eventually(() => assert.equal(cluster.metrics().live, false));
  const changed = await other.services.replace(withCpu('cow', 2), version);
  await created(other.services, withCpu('dog', 1));
  proxy.open();
  assert.equal(
    (await cluster.services.get('cow'))?.version,
    changed.version,
    'the value must be read from the server, not from the cache',
  );
  await eventually(async () => {
    const { items } = await cluster.services.list({});
    assert.deepEqual(
      items.map((record) => record.service.definition.cpu),
      ['2', '1'],
    );
  });
  assert.equal(cluster.metrics().lists, 1, 'the client must not list again');
});

test('watch: a silent network is noticed, and missed changes are read', async (t) => {
  const { proxy, cluster } = await behindProxy(t, { silenceMs: 700, requestMs: 500 });
  const other = await direct(t);
  proxy.hold();
  await created(other.services, withCpu('cow', 1));
  await eventually(() => assert.equal(cluster.metrics().live, false));
  proxy.open();
  await eventually(async () => assert.equal((await cluster.services.list({})).items.length, 1));
});

test('watch: after the resource version expired, it lists again and sees all changes', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const other = await direct(t);
  const gone = await created(other.services, withCpu('gone', 1));
  const kept = await created(other.services, withCpu('kept', 1));
  await eventually(async () => assert.equal((await cluster.services.list({})).items.length, 2));
  proxy.refuse();
  await other.services.remove('gone', gone.version);
  await other.services.replace(withCpu('kept', 2), kept.version);
  await created(other.services, withCpu('new', 1));
  // A restarted server has no watch history.
  await plane.killApiServer();
  await plane.startApiServer();
  proxy.open();
  await eventually(async () => {
    const { items } = await cluster.services.list({});
    assert.deepEqual(
      items.map(({ service }) => [service.definition.name, service.definition.cpu]),
      [
        ['kept', '2'],
        ['new', '1'],
      ],
    );
    // The client waits longer after each failed attempt.
  }, 30_000);
  assert.equal(cluster.metrics().lists, 2);
  await eventually(() => assert.ok(cluster.metrics().live), 30_000);
});

test('conflicts: sixteen concurrent writers of one service all succeed', async (t) => {
  const clusters = await Promise.all([direct(t), direct(t)]);
  const [first] = clusters;
  assert.ok(first);
  await created(first.services, withCpu('cow', 0));
  const each = 4;
  let conflicts = 0;
  const add = async ({ services }: KubernetesCluster): Promise<void> => {
    for (;;) {
      const record = await services.get('cow');
      assert.ok(record);
      try {
        await services.replace(withCpu('cow', Number(record.service.definition.cpu) + 1), record.version);
        return;
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'conflict')) throw error;
        conflicts++;
      }
    }
  };
  const writers = Array.from({ length: 16 }, async (_, i) => {
    for (let n = 0; n < each; n++) await add(clusters[i % 2] ?? first);
  });
  await Promise.all(writers);
  assert.equal(await cpuOnServer('cow'), String(16 * each));
  assert.ok(conflicts > 0);
});

test('etcd paused: writes are delayed, none is lost', async (t) => {
  const cluster = await testbed.open({ times: { ...SHORT_TIMEOUTS, requestMs: 700 } });
  t.after(cluster.close);
  t.after(() => plane.resumeEtcd());
  const { version } = await created(cluster.services, withCpu('cow', 1));
  const entry = await cluster.journal.begin('k', { n: 0 });
  const { failures } = cluster.metrics();
  plane.pauseEtcd();
  const writes = Promise.all([
    cluster.services.replace(withCpu('cow', 2), version),
    cluster.journal.advance('k', entry.version, { n: 1 }),
    created(cluster.services, withCpu('dog', 1)),
  ]);
  await eventually(() => assert.ok(cluster.metrics().failures > failures, 'no request has timed out'));
  plane.resumeEtcd();
  const [changed, advanced] = await writes;
  assert.equal((await cluster.services.get('cow'))?.version, changed.version);
  assert.deepEqual(await cluster.journal.read('k'), { key: 'k', state: { n: 1 }, version: advanced });
  assert.equal(await cpuOnServer('dog'), '1');
});

test('deadline: the store is unavailable, and the write may have happened', async (t) => {
  const cluster = await testbed.open({ times: { ...SHORT_TIMEOUTS, requestMs: 300, patienceMs: 600 } });
  t.after(cluster.close);
  t.after(() => plane.resumeEtcd());
  const entry = await cluster.journal.begin('k', { n: 0 });
  plane.pauseEtcd();
  await assert.rejects(cluster.journal.begin('other', {}), {
    code: 'unavailable',
    message: /did not answer in time.*The write may have happened nevertheless: check before you retry/,
  });
  plane.resumeEtcd();
  await eventually(async () => assert.deepEqual(await cluster.journal.read('k'), entry));
});

test('no API server: a write is unavailable and did not happen; later it works', async (t) => {
  const { proxy, cluster } = await behindProxy(t, { patienceMs: 300 });
  const { version } = await created(cluster.services, withCpu('cow', 1));
  proxy.refuse();
  await assert.rejects(cluster.services.replace(withCpu('cow', 2), version), { code: 'unavailable' });
  assert.equal((await cluster.services.list({})).items.length, 1, 'lists must be served from the cache');
  proxy.open();
  await eventually(() => cluster.services.replace(withCpu('cow', 3), version));
  assert.equal(await cpuOnServer('cow'), '3');
});

test('namespace: while it is being deleted, a create fails with the reason; afterwards it is created again', async (t) => {
  const cluster = await direct(t);
  const service = (name: string) => sampleService(name, { owner: 'ephemeral', namespace: 'oscar-svc-ephem' });
  await created(cluster.services, service('cow'));
  const path = '/api/v1/namespaces/oscar-svc-ephem';
  const keeper = { metadata: { name: 'keeper', finalizers: ['oscar.test/keep'] } };
  await admin.do('POST', `${path}/configmaps`, keeper);
  await admin.do('DELETE', path);

  const reservation = await cluster.services.reserve('dog', 'uid-of-dog');
  assert.ok(reservation !== 'taken');
  const refused = { code: 'unavailable', message: /oscar-svc-ephem is being deleted/ };
  await assert.rejects(cluster.services.create(reservation, service('dog')), refused);
  await assert.rejects(cluster.secrets.put('service', 'oscar-svc-ephem/dog', { A: new Secret('1') }), refused);
  await cluster.services.release(reservation);
  await eventually(async () => assert.equal(await cluster.services.get('cow'), undefined));

  await admin.do(
    'PATCH',
    `${path}/configmaps/keeper`,
    { metadata: { finalizers: [] } },
    'application/merge-patch+json',
  );
  const again = await eventually(async () => {
    const free = await cluster.services.reserve('dog', 'uid-of-dog');
    assert.ok(free !== 'taken');
    try {
      return await cluster.services.create(free, service('dog'));
    } finally {
      await cluster.services.release(free);
    }
  }, 30_000);
  assert.equal(again.service.namespace, 'oscar-svc-ephem');
});

test('secrets: one that is deleted with kubectl is gone for reads and updates, and can be created again', async (t) => {
  const cluster = await direct(t);
  await created(cluster.services, sampleService('cow'));
  const key = 'oscar-svc/cow';
  const version = await cluster.secrets.put('service', key, { A: new Secret('1') });
  await admin.do('DELETE', '/api/v1/namespaces/oscar-svc/secrets/cow');
  assert.equal(await cluster.secrets.get('service', key), undefined);
  await assert.rejects(cluster.secrets.put('service', key, { A: new Secret('2') }, version), { code: 'conflict' });
  await cluster.secrets.remove('service', key);
  await cluster.secrets.put('service', key, { A: new Secret('3') });
  assert.equal((await cluster.secrets.get('service', key))?.values['A']?.reveal(), '3');
});

test('services: a definition that is deleted or damaged with kubectl is noticed', async (t) => {
  const cluster = await direct(t);
  const { version } = await created(cluster.services, withCpu('cow', 1));
  const path = '/api/v1/namespaces/oscar-svc/configmaps/cow';
  const broken = { data: { 'function_config.yaml': 'a: [' } };
  await admin.do('PATCH', path, broken, 'application/merge-patch+json');
  await eventually(() => assert.rejects(cluster.services.get('cow'), { code: 'damaged' }));
  assert.deepEqual((await cluster.services.list({})).items, []);
  assert.equal(await cluster.services.reserve('cow', 'another'), 'taken');
  await admin.do('DELETE', path);
  await eventually(async () => assert.equal(await cluster.services.get('cow'), undefined));
  await assert.rejects(cluster.services.replace(withCpu('cow', 2), version), { code: 'absent' });
});

test('RBAC: missing rights are named, the manager keeps running, and works when they are restored', async (t) => {
  const { proxy, cluster } = await behindProxy(t);
  const role = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${GLOBAL_ROLE}`;
  const give = (rules: readonly unknown[]) => admin.do('PATCH', role, { rules }, 'application/merge-patch+json');
  t.after(() => give(GLOBAL_RULES));
  await created(cluster.services, withCpu('cow', 1));

  await give([]);
  const named = (verb: string, what: string) => ({
    code: 'unavailable',
    message: new RegExp(
      `not allowed to .*grant system:serviceaccount:oscar:oscar-sa the permission to "${verb}" ${what}`,
    ),
  });
  await eventually(() =>
    assert.rejects(cluster.journal.begin('k', {}), named('create', 'configmaps in the namespace oscar')),
  );
  await assert.rejects(cluster.secrets.get('user', 'alice'), named('get', 'secrets in the namespace oscar'));
  assert.ok(await cluster.services.get('cow'), 'reads must be served from the cache');
  const heard = testbed.problems.length;
  proxy.cut();
  await eventually(() =>
    assert.match(String(testbed.problems.slice(heard)), /the permission to "watch" configmaps in the whole cluster/),
  );
  assert.equal((await cluster.services.list({})).items.length, 1);

  await give(GLOBAL_RULES);
  await eventually(() => assert.ok(cluster.metrics().live), 30_000);
  await created(cluster.services, withCpu('dog', 1));
});

test('start: without an API server, the manager says so', async () => {
  const proxy = await Proxy.start(plane.port);
  proxy.refuse();
  const kubeconfig = await plane.managerKubeconfig(proxy.port);
  const opening = testbed.open({ kubeconfig, times: { patienceMs: 100, startMs: 500 } });
  await assert.rejects(opening, {
    code: 'unavailable',
    message: /could not be listed within 0\.5 s: .*cannot be reached/,
  });
  await proxy.stop();
});
