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
  /** Events of more than 64 KiB are refused until there is a blobs. */
  readonly jobs: KubernetesJobs;
  readonly useBlobStore: (blobs: BlobStore) => void;
  /**
   * Clears the blobs of what belongs to nothing any more: started by whoever leads, a new one each time, and stopped before
   * `close`. `attempts` names those that are there, or will be.
   */
  readonly blobSweep: (options: ClusterSweepOptions) => BlobSweep;
  /** Shows the jobs to `kubectl`: started by whoever leads, a new one each time, and stopped before `close`. */
  readonly statusMirror: () => StatusMirror;
  /** Keeps what runs elsewhere out of the queues of Kueue, if that has any: in the same way. */
  readonly workloadReconciler: () => WorkloadReconciler | undefined;
  /** What its nodes can take. To be closed before this is. */
  readonly capacity: (options: Omit<KubernetesCapacityOptions, 'report' | 'times'>) => Promise<OpenCapacity>;
  /** Runs attempts as pods. To be closed before this is. */
  readonly runner: (
    options: Omit<KubernetesRunnerOptions, 'api' | 'namespace' | 'pullSecrets' | 'watch' | 'report'>,
  ) => KubernetesRunner;
  /** Has calls answered by Knative, if that is there, and all else run by the runner that it is given. To be closed before that is. */
  readonly routingRunner: (pods: KubernetesRunner, calling: RoutingRunnerOptions) => RoutingRunner;
  /** What answers calls, if that is Knative. */
  readonly knative?: Pick<Knative, 'installed' | 'deploymentStatus'>;
  /** What lets jobs of users in, if that is Kueue. */
  readonly kueue?: Pick<Kueue, 'problem' | 'reserve' | 'release'>;
  /** Sees to it that everything stands beside the services that should. For whoever leads, now and then. */
  readonly reconcileCompanions: (signal: AbortSignal) => Promise<void>;
  /** One of the managers of this cluster leads; see `lease.ts`. It is to be started, and stopped before `close`. */
  readonly lease: (options: Omit<LeaseOptions, 'namespace' | 'report'>) => Lease;
  /** What its managers have printed, if they run as a Deployment of this name. */
  readonly managersLog: (name: string) => ManagersLog;
  readonly metrics: () => KubernetesMetrics;
  /** Of the API server: `v1.34.4`. */
  readonly version: string;
  readonly close: () => Promise<void>;
}

/** Beside the port: the Job of a job, so that what runs for it can be owned by it. */
export type KubernetesJobs = JobStore & Pick<KubernetesJobStore, 'object'>;

export interface KubernetesMetrics extends ApiMetrics {
  /** Are the pictures of the services and of the jobs kept up by watches at this moment? */
  readonly live: boolean;
  /** How often all services were listed, and all jobs. */
  readonly lists: number;
  readonly jobLists: number;
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
  /** How long Kubernetes keeps jobs after their end: `TTL_JOB`. Absent: until the manager removes them. */
  readonly jobTtlSeconds?: number;
  /** Kueue is asked before a user's job may start: `KUEUE_ENABLE`. */
  readonly kueue?: KueueSettings | undefined;
  /** Calls are answered by Knative: `SERVERLESS_BACKEND`. */
  readonly knative?: KnativeSettings | undefined;
  /** What pods in users' namespaces are not to reach. None: no policy is made. */
  readonly closedNetworks?: readonly Network[];
  /** Secrets of its own namespace with which the manager's image is pulled: `OSCAR_STAGING_PULL_SECRETS`. */
  readonly pullSecrets?: readonly string[];
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
    metrics: () => ({
      ...api.metrics,
      live: services.live && store.live,
      lists: services.lists,
      jobLists: store.lists,
    }),
    close,
  };
}

/** `managedBy` is in every API server from 1.32 on. */
function supportsManagedBy(version: string): boolean {
  const [, major = 0, minor = 0] = /^v(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [];
  return major > 1 || minor >= 32;
}

const tooOldForKueue = (version: string) =>
  new StoreError(
    'refused',
    `KUEUE_ENABLE is true, which needs Kubernetes 1.32 or later, and this is ${version}: Kueue would have it run the jobs itself`,
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
