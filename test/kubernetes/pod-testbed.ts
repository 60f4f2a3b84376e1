import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { archiveOf } from '../../deploy/image/image.ts';
import { managerImage } from '../../deploy/image/manager-image.ts';
import { Api } from '../../src/adapters/kubernetes/client/api.ts';
import { readEndpoint } from '../../src/adapters/kubernetes/client/endpoint.ts';
import { createKubernetesRunner, type KubernetesRunnerOptions } from '../../src/adapters/kubernetes/runner/index.ts';
import type { KubernetesRunner } from '../../src/adapters/kubernetes/runner/kubernetes-runner.ts';
import { EmbeddedStores } from '../../src/adapters/kubernetes/stores/embedded-stores.fixture.ts';
import { Cluster, type ClusterOptions } from './node/cluster.ts';
import { GATEWAY } from './node/names.ts';

const MANAGER_IMAGE = 'localhost/oscar-manager:test';
const CHECKOUT = fileURLToPath(new URL('../..', import.meta.url));

/** The namespace of all attempts in these tests. */
export const PODS_NAMESPACE = 'pods';

/**
 * A separate object store, and runners that list only the attempts started here, so that tests can run concurrently.
 */
export interface IsolatedRunners {
  readonly stores: EmbeddedStores;
  readonly open: (options?: Partial<KubernetesRunnerOptions>) => Promise<KubernetesRunner>;
  /** Uses the given runner to remove all attempts that were started here. */
  close(last: KubernetesRunner): Promise<void>;
}

/** A real cluster with the manager's image, and an object store that its pods can reach. */
export interface PodTestbed {
  readonly cluster: Cluster;
  readonly stores: EmbeddedStores;
  readonly problems: unknown[];
  /** Opens a runner with the rights of the manager's service account, and with short timeouts. */
  readonly open: (options?: Partial<KubernetesRunnerOptions>) => Promise<KubernetesRunner>;
  place(): Promise<IsolatedRunners>;
  stop(): Promise<void>;
}

export async function startPodTestbed(options: ClusterOptions = {}): Promise<PodTestbed> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-pods-'));
  const cluster = await Cluster.start(options);
  try {
    const archive = join(directory, 'manager.tar');
    writeFileSync(archive, archiveOf({ [MANAGER_IMAGE]: managerImage(CHECKOUT) }));
    await cluster.import(archive);
    await cluster.admin.do('POST', '/api/v1/namespaces', { metadata: { name: PODS_NAMESPACE } });
    const stores = await EmbeddedStores.open(join(directory, 'store'), GATEWAY);
    const kubeconfig = await cluster.managerKubeconfig();
    const problems: unknown[] = [];
    const report = (problem: unknown) => void problems.push(problem);
    const rate = { perSecond: 1_000, burst: 1_000 };
    const testbed: PodTestbed = {
      cluster,
      stores,
      problems,
      place: () => openIsolated(mkdtempSync(join(directory, 'place-')), testbed.open),
      async open(more = {}) {
        const api = new Api(await readEndpoint(kubeconfig), {
          rate,
          requestMs: 5_000,
          patienceMs: 10_000,
          random: Math.random,
        });
        const runner = createKubernetesRunner({
          api,
          blobs: stores.blobs,
          image: MANAGER_IMAGE,
          namespace: PODS_NAMESPACE,
          report,
          watch: { watchMs: 300_000, silenceMs: 90_000 },
          pullPolicy: 'IfNotPresent',
          scriptPullPolicy: 'IfNotPresent',
          resources: { requests: { cpu: '10m', memory: '96Mi' }, limits: { memory: '512Mi' } },
          nonRoot: false,
          diskBytes: 2 ** 30,
          keyMs: 3_600_000,
          graceSeconds: 1,
          probeSeconds: 1,
          lostMs: 5_000,
          nodeLossSeconds: 1,
          imagePatienceMs: 3_000,
          ...more,
        });
        const close = runner.close.bind(runner);
        runner.close = async () => {
          await close();
          api.close();
        };
        return runner;
      },
      async stop() {
        await stores.close();
        await cluster.stop();
        rmSync(directory, { recursive: true, force: true });
      },
    };
    return testbed;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

/** The values of a real manager: a kubelet that ends many pods at the same time may be late. */
const TIMES = { lostMs: 30_000, graceSeconds: 10 };

async function openIsolated(directory: string, open: PodTestbed['open']): Promise<IsolatedRunners> {
  const stores = await EmbeddedStores.open(directory, GATEWAY);
  const names = new Set<string>();
  return {
    stores,
    open: async (options) => limitListTo(names, await open({ blobs: stores.blobs, ...TIMES, ...options })),
    async close(last) {
      for (const name of await last.list()) {
        await last.stop(name, 'cancelled');
        await last.forget(name);
      }
      await last.close();
      await stores.close();
    },
  };
}

function limitListTo(names: Set<string>, runner: KubernetesRunner): KubernetesRunner {
  const [start, list] = [runner.start.bind(runner), runner.list.bind(runner)];
  runner.start = (attempt) => start(names.add(attempt.name) && attempt);
  runner.list = async () => (await list()).filter((name) => names.has(name));
  return runner;
}
