import type { EndReason } from '../../../model/job/index.ts';
import type { Observation } from '../../../ports/index.ts';
import {
  type ContainerStatus,
  claimedAt,
  findContainer,
  type Pod,
  parseTime,
  SCRIPT,
  STAGE_IN,
  STAGE_OUT,
  scriptStart,
  stageOutResult,
} from './pod.ts';

/** What keeps a script from starting. */
export interface Hindrance {
  readonly reason: EndReason;
  readonly message: string;
  /** It will not go away by itself. */
  readonly final: boolean;
}

export type Progress = Exclude<Observation, { phase: 'ended' }> & { readonly hindrance?: Hindrance };

/** The progress of an attempt whose pod has not ended. */
export function readProgress(pod: Pod): Progress {
  const startedAt = scriptStart(pod);
  if (startedAt === undefined) return preparing(pod);
  return { phase: isDelivering(pod) ? 'uploading' : 'running', startedAt };
}

/** stage-out is ready when the script has ended; the container of the script waits until the output is delivered. */
function isDelivering(pod: Pod): boolean {
  if (findContainer(pod, SCRIPT)?.state?.terminated?.exitCode === 0) return true;
  return findContainer(pod, STAGE_OUT)?.ready === true;
}

function preparing(pod: Pod): Progress {
  const phase = 'preparing';
  for (const name of [STAGE_IN, STAGE_OUT, SCRIPT]) {
    const hindrance = findHindrance(findContainer(pod, name));
    if (hindrance) return { phase, message: hindrance.message, hindrance };
  }
  if (claimedAt(pod) !== undefined) return { phase, message: 'its pod is ready, and gets its orders' };
  const unscheduled = pod.status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False');
  if (unscheduled) return { phase, message: `waits for a node: ${unscheduled.message ?? unscheduled.reason ?? ''}` };
  if (pod.spec.nodeName === undefined) return { phase, message: 'waits for a node' };
  if (findContainer(pod, STAGE_IN)?.state?.running) return { phase, message: 'its input is being fetched' };
  const { nodeName } = pod.spec;
  return { phase, message: isPrepared(pod) ? `${nodeName} gets its image` : `${nodeName} prepares its pod` };
}

const isPrepared = (pod: Pod) => findContainer(pod, STAGE_IN)?.state?.terminated?.exitCode === 0;

/** Whether the script may have begun without a report of its node yet. */
export function mayHaveBegun(pod: Pod): boolean {
  const { phase, hindrance } = readProgress(pod);
  return phase === 'preparing' && hindrance === undefined && isPrepared(pod);
}

/** The kubelet's reasons for a waiting container that are a problem; all others resolve by themselves. */
const HINDRANCES: Readonly<Record<string, Pick<Hindrance, 'reason' | 'final'>>> = {
  ErrImagePull: { reason: 'ImageFailed', final: false },
  ImagePullBackOff: { reason: 'ImageFailed', final: false },
  RegistryUnavailable: { reason: 'ImageFailed', final: false },
  ImageInspectError: { reason: 'ImageFailed', final: false },
  SignatureValidationFailed: { reason: 'ImageFailed', final: false },
  ErrImageNeverPull: { reason: 'ImageFailed', final: true },
  InvalidImageName: { reason: 'ImageFailed', final: true },
  CreateContainerConfigError: { reason: 'StartFailed', final: false },
  CreateContainerError: { reason: 'StartFailed', final: false },
  RunContainerError: { reason: 'StartFailed', final: false },
  PreStartHookError: { reason: 'StartFailed', final: false },
  CrashLoopBackOff: { reason: 'StartFailed', final: false },
};

const ROOT_REFUSED = 'this cluster runs no image as root (OSCAR_POD_NON_ROOT): give it a USER by number, and not 0.';

function findHindrance(container: ContainerStatus | undefined): Hindrance | undefined {
  const { waiting } = container?.state ?? {};
  const known = HINDRANCES[waiting?.reason ?? ''];
  if (!container || !waiting || !known) return undefined;
  // Reported for root, and for a user given by name, because the kubelet does not resolve it to a number.
  if (container.name === SCRIPT && /runAsNonRoot/.test(waiting.message ?? '')) {
    return { reason: 'StartFailed', final: true, message: `${ROOT_REFUSED} The node says: ${waiting.message}` };
  }
  const what = known.reason === 'ImageFailed' ? 'the image cannot be had' : 'the container cannot be started';
  const whose = container.name === SCRIPT ? '' : ` (${container.name}, of the manager's own image)`;
  return { ...known, message: `${what}${whose}: ${waiting.message ?? waiting.reason ?? ''}` };
}

/** Whether the script has succeeded and its output is delivered. Then the pod ends within seconds. */
function isDelivered(pod: Pod): boolean {
  return findContainer(pod, SCRIPT)?.state?.terminated?.exitCode === 0 && stageOutResult(pod)?.outcome === 'succeeded';
}

/** Whether the pod has ended, or will end in a moment by itself. */
export function hasEnded(pod: Pod): boolean {
  const phase = pod.status?.phase;
  return phase === 'Succeeded' || phase === 'Failed' || isDelivered(pod);
}

/**
 * Whether there is nothing more to wait for. The kubelet ends the containers of a pod before it sets a final phase. A deleted
 * pod without a node has no containers; if its node is silent for too long after the grace period, the node is lost.
 */
export function isOver(pod: Pod, now: number, lostMs: number): boolean {
  if (hasEnded(pod)) return true;
  const deletion = parseTime(pod.metadata.deletionTimestamp);
  return deletion !== undefined && (pod.spec.nodeName === undefined || now >= deletion + lostMs);
}
