import type { Network } from '../../../lib/http/index.ts';
import type { BlobStore } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { KubernetesRunner } from './kubernetes-runner.ts';
import { PodCache } from './pod-cache.ts';
import type { PodSettings } from './pod-spec.ts';

export { type StagingOptions, warmData } from './attempt-secret.ts';
export { escapeDollars } from './environment.ts';
export { PodKeys } from './keys.ts';
export type { KubernetesRunner } from './kubernetes-runner.ts';
export { ManagersLog } from './managers-log.ts';
export { endNote, factsNote, readNotes, withAnnotations } from './notes.ts';
export type { PodOutcome } from './outcome.ts';
export { PendingStarts } from './pending-starts.ts';
export { blobKey, findAttemptPlace, isInputInBlobStore, ownerReferences } from './place.ts';
export { findContainer, POD, type Pod, SCRIPT } from './pod.ts';
export { inputNameProblem } from './pod-attempt-run.ts';
export { authoritiesEnv, imagePullSecrets, type PodSettings } from './pod-spec.ts';
export { formatNotices } from './script-log.ts';

/** The options that come from settings, which have the defaults. */
type Chosen = 'image' | 'pullPolicy' | 'scriptPullPolicy' | 'resources' | 'nonRoot' | 'diskBytes';

export interface KubernetesRunnerOptions extends Pick<PodSettings, Chosen>, Partial<Omit<PodSettings, Chosen>> {
  readonly api: Api;
  readonly blobs: BlobStore;
  /** Whether the certificate of the blob store is verified. */
  readonly verifyBlobStore?: boolean;
  /** Namespace of attempts without a service. */
  readonly namespace: string;
  /** Lifetime of the keys of an attempt. */
  readonly keyMs: number;
  /** How long stage-in and stage-out wait for renewed keys. */
  readonly keyPatienceMs?: number;
  /** How long a failing image pull is retried. */
  readonly imagePatienceMs?: number;
  /** How long a node may be silent about a deleted pod before the pod counts as lost. */
  readonly lostMs?: number;
  /** Networks of the operator where users may have private object stores. */
  readonly networks?: readonly Network[];
  readonly watch: { readonly watchMs: number; readonly silenceMs: number };
  /** Called with problems of background work, which is retried. */
  readonly report: (problem: unknown) => void;
}

const SETTINGS: Omit<PodSettings, Chosen> = {
  user: 1000,
  graceSeconds: 10,
  port: 26_172,
  probeSeconds: 2,
  nodeLossSeconds: 120,
  extraSeconds: 2 * 3_600,
};

/** Long enough for the restart of a registry; a longer time reports a mistyped image later. */
const IMAGE_PATIENCE_MS = 5 * 60_000;

/** In addition to the grace period. A healthy kubelet reports within seconds; a longer time delays the detection of a lost node. */
const LOST_MS = 30_000;

/** Runs attempts as pods of a Kubernetes cluster. */
export function createKubernetesRunner(options: KubernetesRunnerOptions): KubernetesRunner {
  const { api, blobs, namespace, watch, report, networks = [], keyPatienceMs, ...more } = options;
  const { verifyBlobStore = true, keyMs, imagePatienceMs = IMAGE_PATIENCE_MS, lostMs = LOST_MS, ...given } = more;
  const settings: PodSettings = { ...SETTINGS, ...given };
  const keyPatience = keyPatienceMs === undefined ? {} : { keyPatience: keyPatienceMs };
  const stagingOptions = { networks, port: settings.port, ...keyPatience };
  const podCache = new PodCache(api, watch, report, {
    watched: (name) => runner.onAttemptChanged(name),
    warm: () => runner.standby.reconcile(),
  });
  const runner: KubernetesRunner = new KubernetesRunner({
    api,
    podCache,
    blobs,
    verifyBlobStore,
    namespace,
    settings,
    stagingOptions,
    keyMs,
    imagePatienceMs,
    lostMs,
    report,
  });
  return runner;
}
