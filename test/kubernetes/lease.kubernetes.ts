import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, beforeEach, type TestContext, test } from 'node:test';
import type { KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import type { Version } from '../../src/lib/version.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { StoreError } from '../../src/ports/index.ts';
import { Proxy } from './proxy.ts';
import { SHORT_TIMEOUTS, startTestbed } from './testbed.ts';

const testbed = await startTestbed();
after(() => testbed.plane.stop());
beforeEach(() => testbed.wipe());
const { plane } = testbed;

const TIMES = { durationMs: 1_500, renewMs: 150 };

/** Leads until the signal aborts. */
const untilAborted = async (signal: AbortSignal) => {
  if (!signal.aborted) await once(signal, 'abort');
};

async function manager(t: TestContext): Promise<{ cluster: KubernetesCluster; proxy: Proxy }> {
  const proxy = await Proxy.start(plane.port);
  const kubeconfig = await plane.managerKubeconfig(proxy.port);
  const cluster = await testbed.open({ kubeconfig, times: { ...SHORT_TIMEOUTS, requestMs: 400, patienceMs: 400 } });
  t.after(async () => {
    proxy.open();
    await cluster.close();
    await proxy.stop();
  });
  return { cluster, proxy };
}

function leaseOf(cluster: KubernetesCluster, t: TestContext, name: string, onLead = untilAborted) {
  const lease = cluster.lease({ ...TIMES, name, identity: crypto.randomUUID(), onLead });
  lease.start();
  t.after(() => lease.stop());
  return lease;
}

test('leader election: one leads, and releases the lease when it stops', async (t) => {
  const { cluster } = await manager(t);
  const leases = ['a', 'b', 'c'].map(() => leaseOf(cluster, t, 'stops'));
  const leading = () => leases.filter((lease) => lease.leading);
  await eventually(() => assert.equal(leading().length, 1));
  const [first] = leading();
  assert.ok(first);
  await first.stop();
  assert.equal(first.leading, false);
  const { body } = await plane.admin.ask('GET', '/apis/coordination.k8s.io/v1/namespaces/oscar/leases/stops');
  assert.notEqual((body['spec'] as { leaseTransitions?: number }).leaseTransitions, undefined);
  await eventually(() => assert.equal(leading().length, 1));
  assert.notEqual(leading()[0], first);
});

test('leader election: a leader that is cut off stops before another begins', async (t) => {
  const [one, two] = [await manager(t), await manager(t)];
  const history: string[] = [];
  const lead = (name: string) => async (signal: AbortSignal) => {
    history.push(`${name} leads`);
    await untilAborted(signal);
    history.push(`${name} stops`);
  };
  const first = leaseOf(one.cluster, t, 'cut', lead('one'));
  await eventually(() => assert.ok(first.leading));
  const second = leaseOf(two.cluster, t, 'cut', lead('two'));
  one.proxy.hold();
  await eventually(() => assert.ok(second.leading));
  assert.deepEqual(history, ['one leads', 'one stops', 'two leads']);
  one.proxy.open();
  await second.stop();
  await eventually(() => assert.deepEqual(history.slice(3), ['two stops', 'one leads']));
  assert.ok(first.leading);
});

test('leader election: work that ends or fails releases the lease and is started again', async (t) => {
  const { cluster } = await manager(t);
  let begun = 0;
  leaseOf(cluster, t, 'fails', async (signal) => {
    begun++;
    if (begun < 3) throw new Error('the work failed');
    await untilAborted(signal);
  });
  await eventually(() => assert.equal(begun, 3));
});

test('leader election: losing the lease during a claim doubles nothing', async (t) => {
  const [one, two] = [await manager(t), await manager(t)];
  const keys = Array.from({ length: 6 }, (_, i) => `work/${i}`);
  for (const key of keys) await two.cluster.journal.begin(key, { done: 0 });
  const effects: string[] = [];
  const claimed = Promise.withResolvers<void>();
  const cutOff = Promise.withResolvers<void>();

  /** Claims each entry, and executes its effect only by a compare-and-swap on the version that the claim returned. */
  const workOf =
    (who: string, { journal }: KubernetesCluster, inTheMiddle: (n: number) => Promise<void>) =>
    async (signal: AbortSignal): Promise<void> => {
      const { items } = await journal.list('work/');
      for (const [n, { key, version, state }] of items.entries()) {
        if (state['done'] === 1) continue;
        const mine = await journal.claim(key, version);
        if (mine === 'busy') continue;
        await inTheMiddle(n);
        const done = await swap(journal, key, mine);
        if (done) effects.push(`${key} by ${who}`);
      }
      await untilAborted(signal);
    };

  const first = leaseOf(
    one.cluster,
    t,
    'claims',
    workOf('one', one.cluster, async (n) => {
      if (n !== 2) return;
      claimed.resolve();
      // The former leader does not notice that it has lost the lease, like a process that was paused.
      await cutOff.promise;
    }),
  );
  await claimed.promise;
  assert.ok(first.leading);
  one.proxy.hold();
  const second = leaseOf(
    two.cluster,
    t,
    'claims',
    workOf('two', two.cluster, async () => {}),
  );
  await eventually(() => assert.equal(effects.length, keys.length));
  assert.ok(second.leading);
  one.proxy.open();
  cutOff.resolve();
  await eventually(() => assert.equal(first.leading, false));
  await first.stop();
  assert.deepEqual(
    effects.toSorted(),
    keys.map((key, n) => `${key} by ${n < 2 ? 'one' : 'two'}`),
  );
});

async function swap(journal: KubernetesCluster['journal'], key: string, version: Version): Promise<boolean> {
  for (;;) {
    try {
      await journal.advance(key, version, { done: 1 });
      return true;
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      if (error.code !== 'unavailable') return false;
    }
  }
}
