import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import type { KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { sampleService } from '../../src/ports/conformance/sample-service.ts';
import { type ServiceStore, StoreError } from '../../src/ports/index.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { Proxy } from './proxy.ts';
import { SHORT_TIMEOUTS, startTestbed } from './testbed.ts';

const testbed = await startTestbed();
after(() => testbed.plane.stop());
const { plane } = testbed;

const SEED = Number(process.env['OSCAR_TEST_SEED'] ?? Date.now() % 100_000);
const NAMES = ['a', 'b', 'c', 'd', 'e'];
const STEPS = 120;

interface Manager {
  readonly cluster: KubernetesCluster;
  readonly proxy: Proxy;
  /** What a client knows that only follows the watch and reads the objects that it names. */
  readonly followed: Map<string, string>;
}

async function start(t: TestContext): Promise<Manager> {
  const proxy = await Proxy.start(plane.port);
  const kubeconfig = await plane.managerKubeconfig(proxy.port);
  const cluster = await testbed.open({ kubeconfig, times: { ...SHORT_TIMEOUTS, silenceMs: 1_500, requestMs: 1_000 } });
  const followed = new Map<string, string>();
  const leave = new AbortController();
  const following = follow(cluster.services, followed, leave.signal);
  t.after(async () => {
    proxy.open();
    leave.abort();
    await following;
    await cluster.close();
    await proxy.stop();
  });
  return { cluster, proxy, followed };
}

async function follow(services: ServiceStore, followed: Map<string, string>, signal: AbortSignal): Promise<void> {
  for await (const change of services.watch(signal)) {
    assert.notEqual(change.kind, 'resync');
    if (!('name' in change)) continue;
    const record = (await services.list({})).items.find(({ service }) => service.definition.name === change.name);
    if (record) followed.set(change.name, record.service.definition.cpu);
    else followed.delete(change.name);
  }
}

/** The state of the server, read independently. */
async function truth(): Promise<[string, string][]> {
  const { items } = (await plane.admin.do('GET', '/api/v1/configmaps?labelSelector=oscar_service')) as {
    items: { metadata: { name: string }; data: Record<string, string> }[];
  };
  return items.map(({ metadata, data }) => [metadata.name, parse(data['function_config.yaml'] ?? '').cpu]);
}

test(`managers that are cut off again and again end up with what is there (seed ${SEED})`, async (t) => {
  const random = seededRandom(SEED);
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;
  const managers = await Promise.all([start(t), start(t), start(t)]);
  let n = 0;

  const write = async ({ services }: KubernetesCluster, name: string, chance: number): Promise<void> => {
    const record = await services.get(name);
    const uid = `uid-${++n}`;
    if (!record) {
      const reservation = await services.reserve(name, uid);
      if (reservation !== 'taken') await services.create(reservation, sampleService(name, { uid }));
    } else if (chance < 0.4) await services.remove(name, record.version);
    else {
      const definition = { ...record.service.definition, cpu: String(n) };
      await services.replace({ ...record.service, definition }, record.version);
    }
  };
  const disturb = (proxy: Proxy, chance: number) => {
    if (chance < 0.3) proxy.cut();
    else if (chance < 0.45) proxy.refuse();
    else if (chance < 0.6) proxy.hold();
    else if (chance < 0.7) proxy.loseAnswers();
    else proxy.open();
  };

  const writing: Promise<void>[] = [];
  for (let step = 0; step < STEPS; step++) {
    const { proxy } = pick(managers);
    if (random() < 0.35) disturb(proxy, random());
    const attempt = write(pick(managers).cluster, pick(NAMES), random()).catch((error) => {
      if (!(error instanceof StoreError)) throw error;
    });
    writing.push(attempt);
    if (step % 4 === 3) await Promise.race([Promise.all(writing), new Promise((resolve) => setImmediate(resolve))]);
    if (step % 20 === 19) {
      for (const manager of managers) manager.proxy.open();
      await Promise.all(writing);
    }
  }
  for (const { proxy } of managers) proxy.open();
  await Promise.all(writing);

  await eventually(async () => {
    const expected = await truth();
    for (const { cluster, followed } of managers) {
      assert.ok(cluster.metrics().live);
      const { items } = await cluster.services.list({});
      assert.deepEqual(
        items.map(({ service }) => [service.definition.name, service.definition.cpu]),
        expected,
      );
      assert.deepEqual(
        [...followed].toSorted(([a], [b]) => (a < b ? -1 : 1)),
        expected,
      );
      for (const name of NAMES) {
        const cpu = (await cluster.services.get(name))?.service.definition.cpu;
        assert.equal(cpu, Object.fromEntries(expected)[name]);
      }
    }
  }, 40_000);
});
