import { type PodResult, readResult } from '../../../staging/index.ts';
import type { KubeKind, KubeObject, Metadata, Stored } from '../client/kinds.ts';

export const POD: KubeKind = { apiVersion: 'v1', kind: 'Pod', plural: 'pods' };

/** Label on all objects of an attempt: its name. Empty on a warm pod that waits for one. */
export const ATTEMPT = 'oscar.grycap/attempt';

/** Label on a warm pod: the key of attempts that can use it. */
export const WARM = 'oscar.grycap/warm';

/** Annotation on a claimed warm pod: when it was claimed, in milliseconds. */
export const CLAIMED = 'oscar.grycap/attempt-claimed';

/**
 * Finalizer that keeps the pod of an attempt in the API until its outcome is recorded, even if it is deleted. So an attempt
 * without a pod has not run its script.
 */
export const HOLD = 'oscar.grycap/attempt';

/**
 * Names of the containers. The one with the script has the same name as with the Go manager (docs/go-manager.md#kubernetes-objects).
 */
export const SCRIPT = 'oscar-container';
export const SCRIPT_FILE = 'script.sh';
export const STAGE_IN = 'stage-in';
export const STAGE_OUT = 'stage-out';

/** The fields of a pod that the manager reads. Other fields are sent back unchanged. */
export interface Pod extends KubeObject {
  readonly metadata: Metadata & {
    readonly finalizers?: readonly string[];
    readonly deletionTimestamp?: string;
    readonly deletionGracePeriodSeconds?: number;
  };
  readonly spec: {
    readonly nodeName?: string;
    readonly activeDeadlineSeconds?: number;
    readonly terminationGracePeriodSeconds?: number;
    readonly [more: string]: unknown;
  };
  readonly status?: PodStatus;
}

export interface PodStatus {
  readonly startTime?: string;
  readonly phase?: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  readonly reason?: string;
  readonly message?: string;
  readonly conditions?: readonly PodCondition[];
  readonly initContainerStatuses?: readonly ContainerStatus[];
  readonly containerStatuses?: readonly ContainerStatus[];
}

export interface PodCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface ContainerStatus {
  readonly name: string;
  readonly containerID?: string;
  readonly ready?: boolean;
  readonly state?: PodContainerState;
  readonly lastState?: Pick<PodContainerState, 'terminated'>;
}

export interface PodContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly running?: { readonly startedAt?: string | null };
  readonly terminated?: Terminated;
}

export interface Terminated {
  readonly exitCode: number;
  readonly reason?: string;
  readonly message?: string;
  readonly startedAt?: string | null;
  readonly finishedAt?: string | null;
}

/** The fields of a pod that the runner reads. A manager caches thousands of pods. */
export function slimPod({ metadata, spec, status = {} }: Stored<Pod>): Stored<Pod> {
  const { name, namespace, uid, resourceVersion, finalizers, deletionTimestamp, deletionGracePeriodSeconds } = metadata;
  const { creationTimestamp } = metadata;
  const { [ATTEMPT]: attempt, [WARM]: warm } = metadata.labels ?? {};
  const { [CLAIMED]: claimed } = metadata.annotations ?? {};
  const { nodeName, activeDeadlineSeconds, terminationGracePeriodSeconds } = spec;
  const { phase, reason, message, conditions = [], initContainerStatuses = [], containerStatuses = [] } = status;
  return {
    metadata: defined({
      name,
      namespace,
      uid,
      resourceVersion,
      labels: { ...(attempt !== undefined && { [ATTEMPT]: attempt }), ...(warm !== undefined && { [WARM]: warm }) },
      ...(claimed !== undefined && { annotations: { [CLAIMED]: claimed } }),
      ...(warm !== undefined && { creationTimestamp }),
      finalizers,
      deletionTimestamp,
      deletionGracePeriodSeconds,
    }),
    spec: defined({ nodeName, activeDeadlineSeconds, terminationGracePeriodSeconds }),
    status: {
      ...defined({ phase, reason, message }),
      conditions: conditions
        .filter(({ type }) => type === 'PodScheduled' || type === 'DisruptionTarget')
        .map((each) => defined({ type: each.type, status: each.status, reason: each.reason, message: each.message })),
      initContainerStatuses: initContainerStatuses.map(slimContainer),
      containerStatuses: containerStatuses.map(slimContainer),
    },
  };
}

function slimContainer({ name, containerID, ready = false, state, lastState }: ContainerStatus): ContainerStatus {
  const last = lastState?.terminated;
  return {
    name,
    ...defined({ containerID }),
    ready,
    ...(state && { state }),
    ...(last && { lastState: { terminated: last } }),
  };
}

/** Removes undefined values. */
function defined<T extends object>(object: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(object).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}

export function findContainer({ status }: Pod, name: string): ContainerStatus | undefined {
  const all = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return all.find((each) => each.name === name);
}

/** When the container of the script was started, in milliseconds; undefined if it could not be started. */
export function containerStart(pod: Pod): number | undefined {
  const { running, terminated } = findContainer(pod, SCRIPT)?.state ?? {};
  return parseTime(running?.startedAt ?? terminated?.startedAt);
}

/**
 * When the script began, in milliseconds; undefined if it has not. In a claimed warm pod the container was started earlier:
 * stage-out reports the time in its result, and before that only readiness shows that the script has begun.
 */
export function scriptStart(pod: Pod): number | undefined {
  const claimed = claimedAt(pod);
  if (claimed === undefined) return containerStart(pod);
  const script = findContainer(pod, SCRIPT);
  return stageOutResult(pod)?.startedAt ?? (script?.ready && script.state?.running ? claimed : undefined);
}

/** When a warm pod was claimed; undefined for a pod that was created for its attempt. */
export function claimedAt({ metadata }: Pod): number | undefined {
  const claimed = metadata.annotations?.[CLAIMED];
  return claimed === undefined ? undefined : Number(claimed);
}

/** The result of stage-out. Kubernetes restarts it while the script's container runs, so the last state may have the result. */
export function stageOutResult(pod: Pod): PodResult | undefined {
  const stageOut = findContainer(pod, STAGE_OUT);
  const words = [stageOut?.state?.terminated, stageOut?.lastState?.terminated].map((each) => each?.message);
  return words.map((each) => (each === undefined ? undefined : readResult(each))).find((each) => each !== undefined);
}

export function parseTime(text: string | null | undefined): number | undefined {
  const time = Date.parse(text ?? '');
  return time > 0 ? time : undefined;
}

/** When the deletion was requested. The deletionTimestamp of the API is the end of the grace period. */
export function deletionRequestedAt({ metadata }: Pod): number | undefined {
  const over = parseTime(metadata.deletionTimestamp);
  return over === undefined ? undefined : over - (metadata.deletionGracePeriodSeconds ?? 0) * 1_000;
}
