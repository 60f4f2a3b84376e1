import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { KubernetesCluster } from '../adapters/kubernetes/index.ts';
import { openLocalCluster } from '../adapters/sqlite/index.ts';
import type { Config } from '../config/index.ts';
import type { ClusterStore } from '../model/service/index.ts';
import {
  type JobStore,
  type Journal,
  RESERVATION_LIFETIME,
  type SecretStore,
  type ServiceStore,
  type SettingsStore,
} from '../ports/index.ts';
import type { IdentitySeal } from '../s3-server/index.ts';
import { recoverServices, type Services } from '../services/index.ts';
import { knativeSettings } from './backends/knative.ts';
import { kueueSettings } from './backends/kueue.ts';
import { alwaysLeading, type Leadership, leadingBy, type Term } from './backends/leadership.ts';

/** The stores of this cluster, on SQLite or on Kubernetes. */
export interface OpenedCluster {
  readonly services: ServiceStore;
  readonly secrets: SecretStore;
  readonly journal: Journal;
  readonly settings: SettingsStore;
  readonly jobs: JobStore;
  /** Encrypts files next to the stores; absent if the stores are not files of this manager. */
  readonly seal?: IdentitySeal;
  /** Why nothing can be written any more until a restart; absent if the stores are not files of this manager. */
  readonly problem?: () => string | undefined;
  /** Empty for the local backend. */
  readonly kubernetesVersion: string;
  /** Absent for the local backend. */
  readonly kubernetes?: KubernetesCluster;
  /** Decides which manager of this cluster is the leader. */
  readonly leadership: Leadership;
  /** Completes operations that crashed managers had started. */
  tidy(catalog: Services, term: Term): Promise<void>;
  close(): Promise<void>;
}

export async function openCluster(config: Config, objectStore: ClusterStore, log: Logger): Promise<OpenedCluster> {
  return config.backend === 'local' ? openLocal(config, log) : openKubernetes(config, objectStore, log);
}

async function openLocal(config: Config, log: Logger): Promise<OpenedCluster> {
  const cluster = openLocalCluster({ directory: config.dataDir, clusterId: config.clusterId });
  return {
    ...cluster,
    kubernetesVersion: '',
    leadership: alwaysLeading(),
    // No other manager uses this directory: all entries of the journal are from an earlier run.
    tidy: (catalog) => recover(Date.now(), catalog, log),
  };
}

/** The Kubernetes Lease of the leader. */
const LEASE = 'oscar-manager';

/** The leader renews the lease more than three times before it can expire. */
const RENEWED_EVERY = 4 / 15;

/** How often the leader completes operations of crashed managers. No request waits for it. */
const TIDY_EVERY_MS = 60_000;

async function openKubernetes(config: Config, objectStore: ClusterStore, log: Logger): Promise<OpenedCluster> {
  // Loaded on demand, because the local backend never needs it.
  const { openKubernetesCluster } = await import('../adapters/kubernetes/index.ts');
  const cluster = await openKubernetesCluster({
    ...(config.kubeconfig && { kubeconfig: config.kubeconfig }),
    namespace: config.namespace,
    servicesNamespace: config.servicesNamespace,
    controllerServiceAccount: config.controllerServiceAccount,
    settingsName: config.additionalConfigPath,
    objectStore,
    rate: { perSecond: config.kubernetesRate, burst: config.kubernetesBurst },
    jobTtlSeconds: config.jobTtlSeconds,
    closedNetworks: config.closedNetworks,
    pullSecrets: config.stagingPullSecrets,
    ...(config.serverlessBackend === 'knative' && { knative: knativeSettings(config, (problem) => log.warn(problem)) }),
    ...(config.kueueEnable && { kueue: kueueSettings(config) }),
    report: (problem) => log.warn({ err: problem }, 'request to the Kubernetes API failed'),
  });
  const watching = reportWaits(() => cluster.metrics().waitedMs, log);
  const identity = `${hostname()}-${randomUUID()}`;
  const durationMs = config.leaderSeconds * 1_000;
  const leadership = leadingBy((lead) =>
    cluster.lease({
      name: LEASE,
      durationMs,
      renewMs: durationMs * RENEWED_EVERY,
      identity,
      async onLead(signal) {
        log.info('this manager leads');
        await lead(signal);
        log.info('this manager leads no more');
      },
    }),
  );
  return {
    ...cluster,
    kubernetesVersion: cluster.version,
    kubernetes: cluster,
    leadership,
    async tidy(catalog, { signal, defer }) {
      const tidying = tidyNowAndThen(catalog, () => cluster.reconcileCompanions(signal), signal, log);
      defer(() => tidying);
    },
    async close() {
      clearInterval(watching);
      await cluster.close();
    },
  };
}

async function tidyNowAndThen(
  catalog: Services,
  keepBeside: () => Promise<void>,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  while (!signal.aborted) {
    // Newer operations may still be running in other managers.
    await recover(Date.now() - RESERVATION_LIFETIME, catalog, log).catch((err: unknown) =>
      log.warn({ err }, 'could not complete the operations of other managers: retrying'),
    );
    await keepBeside();
    await pause(TIDY_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Logs when requests had to wait for the configured rate limit, so that the operator can raise it. */
function reportWaits(waitedMs: () => number, log: Logger): NodeJS.Timeout {
  let before = 0;
  const look = () => {
    const waited = waitedMs() - before;
    before += waited;
    if (waited > 0)
      log.warn({ waitedMs: waited }, 'requests to the Kubernetes API waited: OSCAR_KUBERNETES_RATE is the limit');
  };
  return setInterval(look, TIDY_EVERY_MS).unref();
}

async function recover(begunBefore: number, catalog: Services, log: Logger): Promise<void> {
  const recovered = await recoverServices(begunBefore, catalog);
  if (recovered > 0) log.info({ recovered }, 'completed operations of an earlier run');
}
