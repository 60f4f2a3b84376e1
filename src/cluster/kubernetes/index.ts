import type { ClusterStore } from '../../service/index.ts';
import { StoreError } from '../errors.ts';
import type { Journal } from '../journal.ts';
import type { SecretStore } from '../secret-store.ts';
import type { ServiceStore } from '../service-store.ts';
import type { SettingsStore } from '../settings-store.ts';
import { Api, type ApiMetrics } from './api/api.ts';
import { endpointOf } from './api/endpoint.ts';
import type { RateLimit } from './api/rate-limit.ts';
import { KubernetesJournal } from './journal.ts';
import { Lease, type LeaseOptions } from './lease.ts';
import { Namespaces } from './namespaces.ts';
import { Reservations } from './reservations.ts';
import { KubernetesSecretStore } from './secret-store.ts';
import { KubernetesServiceStore } from './service-store.ts';
import { KubernetesSettingsStore } from './settings-store.ts';

export interface KubernetesCluster {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly settings: SettingsStore;
  /** One of the managers of this cluster leads; see `lease.ts`. It is to be started, and stopped before `close`. */
  readonly lease: (options: Omit<LeaseOptions, 'namespace' | 'report'>) => Lease;
  readonly metrics: () => KubernetesMetrics;
  /** Of the API server: `v1.34.4`. */
  readonly version: string;
  readonly close: () => Promise<void>;
}

export interface KubernetesMetrics extends ApiMetrics {
  /** Is the picture of the services kept up by a watch at this moment? */
  readonly live: boolean;
  /** How often all services were listed. */
  readonly lists: number;
}

export interface KubernetesClusterOptions {
  /** A file; without one the manager is in a pod. */
  readonly kubeconfig?: string;
  /** Of the manager: `OSCAR_NAMESPACE`. */
  readonly namespace: string;
  /** Of the administrator's services: `OSCAR_SERVICES_NAMESPACE`. */
  readonly servicesNamespace: string;
  readonly controllerServiceAccount: string;
  /** Name of the ConfigMap with the settings: `ADDITIONAL_CONFIG_PATH`. */
  readonly settingsName: string;
  /** As definitions show the store of the cluster. */
  readonly objectStore: ClusterStore;
  /** Of requests to the API. There is no default that nobody sees. */
  readonly rate: RateLimit;
  /** Told what goes wrong in the background and mends itself. */
  readonly report: (problem: unknown) => void;
  readonly now?: () => number;
  readonly times?: Partial<typeof TIMES>;
}

/**
 * `requestMs`: a healthy server answers in tens of milliseconds. `patienceMs`: with a request that is just being asked
 * about it must stay below the lifetime of a reservation. `watchMs`, `silenceMs`: see `informer.ts`.
 */
const TIMES = { requestMs: 5_000, patienceMs: 10_000, watchMs: 300_000, silenceMs: 90_000, startMs: 30_000 };

/** The stores of a cluster that is Kubernetes: its API is the database. */
export async function openKubernetesCluster(options: KubernetesClusterOptions): Promise<KubernetesCluster> {
  const { namespace, servicesNamespace, controllerServiceAccount, objectStore, rate, report, now = Date.now } = options;
  const { requestMs, patienceMs, watchMs, silenceMs, startMs } = { ...TIMES, ...options.times };
  const endpoint = await endpointOf(options.kubeconfig);
  const api = new Api(endpoint, { rate, requestMs, patienceMs, random: Math.random });
  const services = new KubernetesServiceStore(api, {
    namespaces: new Namespaces(api, { manager: namespace, services: servicesNamespace, controllerServiceAccount }),
    reservations: new Reservations(api, namespace, now),
    objectStore,
    watch: { watchMs, silenceMs },
    report,
  });
  const close = async () => {
    await services.close();
    api.close();
  };
  let version: string;
  try {
    await opened(services, startMs, endpoint.url);
    version = await api.version();
  } catch (error) {
    await close();
    throw error;
  }
  return {
    version,
    services,
    secrets: new KubernetesSecretStore(api, { namespace, declared: (key) => services.declaredSecrets(key) }),
    journal: new KubernetesJournal(api, namespace),
    settings: new KubernetesSettingsStore(api, namespace, options.settingsName),
    lease: (lease) => new Lease(api, { namespace, report, ...lease }),
    metrics: () => ({ ...api.metrics, live: services.live, lists: services.lists }),
    close,
  };
}

async function opened(services: KubernetesServiceStore, startMs: number, { href }: URL): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () =>
      reject(
        new StoreError(
          'unavailable',
          `the services could not be listed within ${startMs / 1_000} s: ${services.trouble ?? `${href} does not answer`}`,
        ),
      ),
    startMs,
  );
  try {
    await Promise.race([services.open(), late]);
  } finally {
    clearTimeout(timer);
  }
}
