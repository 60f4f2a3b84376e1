import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { KubernetesCluster, KubernetesClusterOptions } from '../../src/adapters/kubernetes/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { type Bench, QUICK } from './testbed.ts';
import { Proxy } from './proxy.ts';

type Times = KubernetesClusterOptions['times'];

/** Managers of a bench, each for one test. */
export function waysTo(bench: Bench) {
  const { plane } = bench;
  return {
    /** One whose way to the API server can be disturbed. */
    behindProxy: async (t: TestContext, times: Times = {}): Promise<{ proxy: Proxy; cluster: KubernetesCluster }> => {
      const proxy = await Proxy.start(plane.port);
      const kubeconfig = await plane.managerKubeconfig(proxy.port);
      const cluster = await bench.open({ kubeconfig, times: { ...QUICK, ...times } });
      await eventually(() => assert.ok(cluster.metrics().live));
      t.after(async () => {
        proxy.open();
        await cluster.close();
        await proxy.stop();
      });
      return { proxy, cluster };
    },

    direct: async (t: TestContext, times: Times = {}): Promise<KubernetesCluster> => {
      const cluster = await bench.open({ times: { ...QUICK, ...times } });
      t.after(cluster.close);
      return cluster;
    },
  };
}
