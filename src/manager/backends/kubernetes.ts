import type { Logger } from 'pino';
import type { KubernetesCluster } from '../../adapters/kubernetes/index.ts';
import { ObjectBlobStore } from '../../adapters/object-stores/blob-store.ts';
import type { Config } from '../../config/index.ts';
import { FollowerScheduler, maintainStandby } from '../../jobs/index.ts';
import type { JobStore, ObjectStore, Runner } from '../../ports/index.ts';
import { createStaging } from '../../staging/index.ts';
import { ownAuthorities } from './authorities.ts';
import type { Backend } from './backend.ts';

/** Worker processes that copy results of delegated jobs to external providers. Started on demand. */
const STAGING_WORKERS = 2;

/**
 * Requested lifetime of the store keys of pods; they are renewed after half of the granted lifetime. Shorter: more requests to
 * the store while jobs run. Longer: the keys of a pod stay valid for longer if all managers of the cluster are down.
 */
const KEY_SECONDS = 60 * 60;

/** The Kubernetes backend: the leader starts scripts in pods. */
export async function openKubernetesBackend(
  config: Config,
  cluster: KubernetesCluster,
  objects: ObjectStore,
  log: Logger,
): Promise<Backend> {
  await using opened = new AsyncDisposableStack();
  const blobs = new ObjectBlobStore(objects, { verify: config.minioTlsVerify });
  cluster.useBlobStore(blobs);
  const manager = { namespace: config.namespace, name: config.name };
  const requests = { cpu: `${config.stagingCpuMillicores}m`, memory: String(config.stagingMemoryBytes) };
  const choice = { nodeSelector: Object.fromEntries(config.podNodeSelector), tolerations: config.podTolerations };
  const capacity = opened.adopt(await cluster.capacity({ ...choice, overhead: requests, manager }), (it) => it.close());
  const pods = opened.adopt(
    cluster.runner({
      ...choice,
      blobs,
      verifyBlobStore: config.minioTlsVerify,
      // The checks of the settings ensure that it is set.
      image: config.stagingImage ?? '',
      pullPolicy: config.stagingPullPolicy,
      ...ownAuthorities((problem) => log.warn(problem)),
      scriptPullPolicy: config.imagePullPolicy,
      resources: { requests, limits: { memory: String(config.stagingMemoryLimitBytes) } },
      diskBytes: config.podDiskBytes,
      nonRoot: config.podNonRoot,
      keyMs: KEY_SECONDS * 1000,
      networks: config.peerNetworks,
    }),
    (it) => it.close(),
  );
  const calling = { blobs, verifyBlobStore: config.minioTlsVerify, networks: config.peerNetworks };
  const runner = opened.adopt(cluster.routingRunner(pods, calling), (it) => it.close());
  const staging = opened.adopt(createStaging({ workers: STAGING_WORKERS, networks: config.peerNetworks }), (it) =>
    it.close(),
  );
  log.info({ image: config.stagingImage, nodes: capacity.capacity.nodes().length }, 'scripts run in pods');
  const closing = opened.move();
  return {
    runner,
    capacity: capacity.capacity,
    staging,
    runtime: 'pods',
    node: '',
    keys: { seconds: KEY_SECONDS, inProcess: false },
    deployment: capacity.deployment,
    async line(options) {
      const line = new FollowerScheduler({ ...options, callerTimeout: config.writeTimeoutSeconds * 1000 });
      await line.open();
      return line;
    },
    async lead({ services, store }, term) {
      const sweep = cluster.blobSweep({
        blobs,
        attempts: () => openAttempts(runner, store),
        onRemoved: (entries) => log.info({ entries }, 'removed blobs of deleted jobs'),
      });
      term.defer(() => sweep.stop());
      sweep.start();
      const mirror = cluster.statusMirror();
      term.defer(() => mirror.stop());
      term.defer(() => runner.standDown());
      mirror.start();
      const outOfQueue = cluster.workloadReconciler();
      term.defer(() => outOfQueue?.stop());
      outOfQueue?.start();
      const report = (err: unknown) => log.warn({ err }, 'could not list the services with warm pods: retrying');
      // Knative has its own warm pods: those from before Knative was enabled are removed.
      if (cluster.knative) pods.standby.setRequests([]);
      else void maintainStandby(services, pods.standby, config.warmPodsPerOwner, report, term.signal);
    },
    close: () => closing.disposeAsync(),
  };
}

/** The attempts that exist, and those that may still be started because their job has not ended. */
async function openAttempts(runner: Pick<Runner, 'list'>, jobs: Pick<JobStore, 'unfinished'>): Promise<Set<string>> {
  const names = new Set(await runner.list());
  for await (const { attempts } of jobs.unfinished()) for (const { name } of attempts) names.add(name);
  return names;
}
