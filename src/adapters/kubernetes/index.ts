import type { Network } from '../../lib/http/index.ts';
import type { ClusterStore } from '../../model/service/index.ts';
import {
  type BlobStore,
  type JobStore,
  type Journal,
  type SecretStore,
  type ServiceStore,
  type SettingsStore,
  StoreError,
} from '../../ports/index.ts';
import { KubernetesAuditEvents } from './audit-events.ts';
import { type KubernetesCapacityOptions, type OpenCapacity, openKubernetesCapacity } from './capacity/index.ts';
import { Api, type ApiMetrics, type RateLimit } from './client/api.ts';
import { readEndpoint } from './client/endpoint.ts';
import { Lease, type LeaseOptions } from './client/lease.ts';
import {
  createRoutingRunner,
  Knative,
  type KnativeSettings,
  type RoutingRunner,
  type RoutingRunnerOptions,
} from './knative/index.ts';
import { Kueue, type KueueSettings } from './kueue/index.ts';
import { Namespaces } from './namespaces/namespaces.ts';
import { PullSecrets } from './namespaces/pull-secrets.ts';
import {
  createKubernetesRunner,
  type KubernetesRunner,
  type KubernetesRunnerOptions,
  ManagersLog,
} from './runner/index.ts';
import { BlobSweep, type BlobSweepOptions, isBlobReferenced } from './stores/blob-sweep.ts';
import { combineCompanions } from './stores/companions.ts';
import { GoManagerSecrets } from './stores/go-manager-secrets.ts';
import { KubernetesJobStore } from './stores/job-store.ts';
import { KubernetesJournal } from './stores/journal.ts';
import { Reservations } from './stores/reservations.ts';
import { KubernetesSecretStore } from './stores/secret-store.ts';
import { KubernetesServiceStore } from './stores/service-store.ts';
import { KubernetesSettingsStore } from './stores/settings-store.ts';
import type { StatusMirror } from './stores/status-mirror.ts';
import type { WorkloadReconciler } from './stores/workload-reconciler.ts';

export type { KnativeSettings } from './knative/knative-service.ts';
export type { KueueSettings } from './kueue/objects.ts';

export type ClusterSweepOptions = Pick<BlobSweepOptions, 'blobs' | 'onRemoved'> & {
  readonly attempts: () => Promise<ReadonlySet<string>>;
};

export interface KubernetesCluster {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly settings: SettingsStore;
  /** Events of more than 64 KiB are rejected until `useBlobStore` has been called. */
  readonly jobs: KubernetesJobs;
  readonly useBlobStore: (blobs: BlobStore) => void;
  /**
   * Removes unreferenced blobs. The leader starts a new one each time it begins to lead, and stops it before `close`.
   * `attempts` lists the attempts that exist or are about to.
   */
  readonly blobSweep: (options: ClusterSweepOptions) => BlobSweep;
  /** Shows the jobs to `kubectl`. Started and stopped like `blobSweep`. */
  readonly statusMirror: () => StatusMirror;
  /** Takes delegated jobs out of the queues of Kueue, if it is enabled. Started and stopped like `blobSweep`. */
  readonly workloadReconciler: () => WorkloadReconciler | undefined;
  /** The capacity of its nodes. Close it before the cluster. */
  readonly capacity: (options: Omit<KubernetesCapacityOptions, 'report' | 'times'>) => Promise<OpenCapacity>;
  /** Runs attempts as pods. Close it before the cluster. */
  readonly runner: (
    options: Omit<KubernetesRunnerOptions, 'api' | 'namespace' | 'pullSecrets' | 'watch' | 'report'>,
  ) => KubernetesRunner;
  /** Gives calls to Knative, if it is enabled, and all other attempts to the given runner. Close it before that runner. */
  readonly routingRunner: (pods: KubernetesRunner, calling: RoutingRunnerOptions) => RoutingRunner;
  /** Absent if Knative does not answer calls. */
  readonly knative?: Pick<Knative, 'installed' | 'deploymentStatus'>;
  /** Absent if Kueue does not admit jobs. */
  readonly kueue?: Pick<Kueue, 'problem' | 'reserve' | 'release'>;
  /** Creates and corrects the companions of all services. The leader calls it periodically. */
  readonly reconcileCompanions: (signal: AbortSignal) => Promise<void>;
  /** Leader election among the managers of this cluster (`lease.ts`). Start it, and stop it before `close`. */
  readonly lease: (options: Omit<LeaseOptions, 'namespace' | 'report'>) => Lease;
  /** The logs of the managers, if they run as a Deployment of this name. */
  readonly managersLog: (name: string) => ManagersLog;
  /** Shows audited acts as Events. Close it before the cluster. */
  readonly auditEvents: () => KubernetesAuditEvents;
  readonly metrics: () => KubernetesMetrics;
  /** Version of the API server: `v1.34.4`. */
  readonly version: string;
  readonly close: () => Promise<void>;
}

/** The port, and the Job of a job, for owner references. */
export type KubernetesJobs = JobStore & Pick<KubernetesJobStore, 'object'>;

export interface KubernetesMetrics extends ApiMetrics {
  /** Whether the watches of services and jobs are open at this moment. */
  readonly live: boolean;
  /** How often all services and all jobs were listed. */
  readonly lists: number;
  readonly jobLists: number;
}

export interface KubernetesClusterOptions {
  /** Path of a kubeconfig file; without one the manager uses the service account of its pod. */
  readonly kubeconfig?: string;
  /** Namespace of the manager: `OSCAR_NAMESPACE`. */
  readonly namespace: string;
  /** Namespace of the administrator's services: `OSCAR_SERVICES_NAMESPACE`. */
  readonly servicesNamespace: string;
  readonly controllerServiceAccount: string;
  /** Name of the ConfigMap with the settings: `ADDITIONAL_CONFIG_PATH`. */
  readonly settingsName: string;
  /** The cluster's own object store, as definitions show it. */
  readonly objectStore: ClusterStore;
  /** Rate limit of requests to the API; it has no hidden default. */
  readonly rate: RateLimit;
  /** How long Kubernetes keeps jobs after their end: `TTL_JOB`. If absent, only the manager removes them. */
  readonly jobTtlSeconds?: number;
  /** Set if Kueue admits the jobs of users: `KUEUE_ENABLE`. */
  readonly kueue?: KueueSettings | undefined;
  /** Set if Knative answers calls: `SERVERLESS_BACKEND`. */
  readonly knative?: KnativeSettings | undefined;
  /** Networks that pods in users' namespaces must not reach. If empty, no NetworkPolicy is created. */
  readonly closedNetworks?: readonly Network[];
  /** Secrets of its own namespace with which the manager's image is pulled: `OSCAR_STAGING_PULL_SECRETS`. */
  readonly pullSecrets?: readonly string[];
  /** Called with problems of background work, which is retried. */
  readonly report: (problem: unknown) => void;
  readonly now?: () => number;
  readonly times?: Partial<typeof TIMES>;
}

/**
 * `requestMs`: a healthy server answers in tens of milliseconds. `patienceMs`: together with one more request it must stay
 * below the lifetime of a reservation. `watchMs`, `silenceMs`: see `informer.ts`.
 */
const TIMES = { requestMs: 5_000, patienceMs: 10_000, watchMs: 300_000, silenceMs: 90_000, startMs: 30_000 };

/** Opens the stores of a Kubernetes cluster: its API is the database. */
export async function openKubernetesCluster(options: KubernetesClusterOptions): Promise<KubernetesCluster> {
  const { namespace, servicesNamespace, controllerServiceAccount, objectStore, rate, report, now = Date.now } = options;
  const { requestMs, patienceMs, watchMs, silenceMs, startMs } = { ...TIMES, ...options.times };
  const endpoint = await readEndpoint(options.kubeconfig);
  const api = new Api(endpoint, { rate, requestMs, patienceMs, random: Math.random });
  const watch = { watchMs, silenceMs };
  const pullSecrets = new PullSecrets(api, { manager: namespace, names: options.pullSecrets ?? [], report });
  const pulled = { pullSecrets: pullSecrets.copies };
  const knative = options.knative && new Knative({ api, settings: { ...options.knative, ...pulled }, watch, report });
  const kueue = options.kueue && new Kueue({ api, settings: options.kueue, servicesNamespace, watch, report });
  const services = new KubernetesServiceStore(api, {
    companions: combineCompanions([kueue, knative].filter((each): each is Kueue | Knative => each !== undefined)),
    namespaces: new Namespaces(api, {
      manager: namespace,
      services: servicesNamespace,
      controllerServiceAccount,
      knative: knative !== undefined,
      kueue: kueue !== undefined,
      closedNetworks: options.closedNetworks ?? [],
      pullSecrets,
    }),
    pullSecrets,
    reservations: new Reservations(api, namespace, now),
    objectStore,
    adoptSecrets: (service) => secrets.adopt(service.uid, `${service.namespace}/${service.definition.name}`),
    watch,
    report,
  });
  const secrets = new KubernetesSecretStore(api, {
    namespace,
    declared: (key) => services.declaredSecrets(key),
    goManagerSecrets: new GoManagerSecrets(api, {
      servicesNamespace,
      credentialsFor: (uid) => services.credentialsFor(uid),
    }),
  });
  let jobs: KubernetesJobStore | undefined;
  const close = async () => {
    await jobs?.close();
    await knative?.close();
    await kueue?.close();
    await services.close();
    api.close();
  };
  let version: string;
  try {
    await openWithin(services, 'services', startMs, endpoint.url);
    version = await api.version();
    if (kueue && !supportsManagedBy(version)) throw tooOldForKueue(version);
    if (kueue) await openWithin(kueue, 'queues of Kueue', startMs, endpoint.url);
    jobs = new KubernetesJobStore(api, {
      managedBy: supportsManagedBy(version),
      kueue,
      ...(options.jobTtlSeconds !== undefined && { ttlSeconds: options.jobTtlSeconds }),
      serviceNamed: async (name) => (await services.get(name))?.service,
      watch,
      now,
      report,
    });
    await openWithin(jobs, 'jobs', startMs, endpoint.url);
    await knative?.open();
  } catch (error) {
    await close();
    throw error;
  }
  const store = jobs;
  return {
    version,
    services,
    jobs: store,
    useBlobStore: (blobs) => store.useBlobStore(blobs),
    blobSweep: ({ attempts, ...clearing }) =>
      new BlobSweep({
        ...clearing,
        referenced: async () => ({ events: store.eventBlobKeys(), attempts: await attempts() }),
        isReferenced: (suspect) => isBlobReferenced(suspect, api),
        now,
        report,
      }),
    statusMirror: () => store.statusMirror(),
    workloadReconciler: () => store.workloadReconciler(),
    secrets,
    journal: new KubernetesJournal(api, namespace),
    settings: new KubernetesSettingsStore(api, namespace, options.settingsName),
    capacity: (choice) => openKubernetesCapacity(api, { ...choice, report, times: { watchMs, silenceMs, startMs } }),
    runner: (settings) =>
      createKubernetesRunner({ ...settings, ...pulled, api, namespace: servicesNamespace, watch, report }),
    routingRunner: (pods, calling) => createRoutingRunner(pods, calling, { api, watch, report, knative }),
    ...(knative && { knative }),
    ...(kueue && { kueue }),
    reconcileCompanions: (signal) => services.reconcileCompanions(signal),
    lease: (lease) => new Lease(api, { namespace, report, ...lease }),
    managersLog: (name) => new ManagersLog(api, { namespace, name, report }),
    auditEvents: () => new KubernetesAuditEvents({ api, namespace, report }),
    metrics: () => ({
      ...api.metrics,
      live: services.live && store.live,
      lists: services.lists,
      jobLists: store.lists,
    }),
    close,
  };
}

/** Every API server from 1.32 on supports `managedBy`. */
function supportsManagedBy(version: string): boolean {
  const [, major = 0, minor = 0] = /^v(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [];
  return major > 1 || minor >= 32;
}

const tooOldForKueue = (version: string) =>
  new StoreError(
    'refused',
    `KUEUE_ENABLE is true, which needs Kubernetes 1.32 or later, and this cluster has ${version}, which would run the jobs itself when Kueue admits them`,
  );

interface Opening {
  open(): Promise<void>;
  readonly trouble: string | undefined;
}

async function openWithin(store: Opening, what: string, startMs: number, { href }: URL): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const reason = store.trouble ?? `${href} does not answer`;
    reject(new StoreError('unavailable', `the ${what} could not be listed within ${startMs / 1_000} s: ${reason}`));
  }, startMs);
  try {
    await Promise.race([store.open(), late]);
  } finally {
    clearTimeout(timer);
  }
}
