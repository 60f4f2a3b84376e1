import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { KubernetesCluster, KubernetesClusterOptions } from '../../src/adapters/kubernetes/index.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { Proxy } from './proxy.ts';
import { SHORT_TIMEOUTS, type Testbed } from './testbed.ts';

type Times = KubernetesClusterOptions['times'];

/** Opens the stores of a testbed for the duration of one test. */
export function clusterOpeners(testbed: Testbed) {
  const { plane } = testbed;
  return {
    /** Connects to the API server through a proxy that can disturb the connection. */
    behindProxy: async (t: TestContext, times: Times = {}): Promise<{ proxy: Proxy; cluster: KubernetesCluster }> => {
      const proxy = await Proxy.start(plane.port);
      const kubeconfig = await plane.managerKubeconfig(proxy.port);
      const cluster = await testbed.open({ kubeconfig, times: { ...SHORT_TIMEOUTS, ...times } });
      await eventually(() => assert.ok(cluster.metrics().live));
      t.after(async () => {
        proxy.open();
        await cluster.close();
        await proxy.stop();
      });
      return { proxy, cluster };
    },

    direct: async (t: TestContext, times: Times = {}): Promise<KubernetesCluster> => {
      const cluster = await testbed.open({ times: { ...SHORT_TIMEOUTS, ...times } });
      t.after(cluster.close);
      return cluster;
    },
  };
}
