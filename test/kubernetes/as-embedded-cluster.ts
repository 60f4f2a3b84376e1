import type { KubernetesCluster } from '../../src/adapters/kubernetes/index.ts';
import type { LocalCluster } from '../../src/adapters/sqlite/index.ts';
import { startTestbed, type Testbed } from './testbed.ts';

/** `services.kubernetes.ts` loads this module in place of the embedded cluster. */
export const testbed: Testbed = await startTestbed();

/** Returns synchronously, like the original, before the API is ready: every call waits for it. */
export function openLocalCluster(): Omit<LocalCluster, 'seal' | 'jobs' | 'problem'> {
  const opening = testbed.wipe().then(() => testbed.open());
  return {
    services: awaited(opening, 'services'),
    secrets: awaited(opening, 'secrets'),
    journal: awaited(opening, 'journal'),
    settings: awaited(opening, 'settings'),
    close: async () => (await opening).close(),
  };
}

type Store = 'services' | 'secrets' | 'journal' | 'settings';

function awaited<K extends Store>(opening: Promise<KubernetesCluster>, store: K): KubernetesCluster[K] {
  const call =
    (method: string | symbol) =>
    async (...args: unknown[]) => {
      const target = (await opening)[store];
      return (Reflect.get(target, method) as (...given: unknown[]) => unknown).apply(target, args);
    };
  return new Proxy({} as KubernetesCluster[K], { get: (_, method) => call(method), ownKeys: () => [] });
}
