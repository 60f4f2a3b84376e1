import { ORDER_FILES, POD_LAYOUT, SCRIPT_MOUNTS, SCRIPT_VIEW, WRAPPER } from '../../../../supervisor/index.ts';
import type { Attempt } from '../../../attempt.ts';
import type { Toleration } from '../../capacity/taints.ts';
import { legalAnnotations, legalLabels } from '../../legal.ts';
import { JOB_KEY } from '../../marks.ts';
import { environmentOf, verbatim } from './environment.ts';
import { type AttemptPlace, isShelved, labelsOfRecord, ownersOf } from './place.ts';
import { ATTEMPT, HOLD, type Pod, SCRIPT, SCRIPT_FILE, STAGE_IN, STAGE_OUT } from './pod.ts';

export type PullPolicy = 'Always' | 'IfNotPresent' | 'Never';

/** Quantities as Kubernetes has them. */
export interface Resources {
  readonly requests?: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
}

export interface PodSettings {
  /** Of the manager, with `stage-in` and `stage-out` in it. */
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  /** Of the images of services. */
  readonly scriptPullPolicy: PullPolicy;
  /** Of stage-in and stage-out, each. */
  readonly resources: Resources;
  /** Who our programs are in a pod: the user of the manager's image. */
  readonly user: number;
  /** Refuse images whose user is root. */
  readonly nonRoot: boolean;
  /** Bytes that input, output and what our programs keep may have together. */
  readonly diskBytes: number;
  readonly graceSeconds: number;
  /** Where stage-out tells the kubelet that the script has ended, and how often it is asked. */
  readonly port: number;
  readonly probeSeconds: number;
  /** How long a pod stays on a node that does not answer. */
  readonly nodeLossSeconds: number;
  /**
   * What a pod has beyond the time of its script, for its image, its input and its output. Then the kubelet ends it, even if
   * no manager is there. Shorter: a slow upload is cut. Longer: a script that evades its timeout runs on.
   */
  readonly extraSeconds: number;
  /** Which nodes are for jobs, and what is put up with there. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
}

/** A script that has begun is not begun again elsewhere: whoever makes a cluster smaller is to wait for it. */
const KEEP = 'cluster-autoscaler.kubernetes.io/safe-to-evict';

const SHARED = 'shared';
const CONFIG = 'config';

/** The most that Kubernetes takes. */
const MOST_SECONDS = 2 ** 31 - 1;

/** What images commonly need of root. Left out: raw sockets, device nodes, low ports, chroot, file capabilities, audit. */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID'];

const OURS = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;

/** The pod of an attempt (contract §3.4, design §4): the input is put in place, the script runs, its output is brought away. */
export function podOf(attempt: Attempt, place: AttemptPlace, settings: PodSettings): Pod {
  const { name, traits } = attempt;
  const { user, graceSeconds, nodeLossSeconds, diskBytes } = settings;
  const pullSecrets = traits?.imagePullSecrets ?? [];
  const input = attempt.input.kind === 'bytes' && !isShelved(attempt) ? [ORDER_FILES.input] : [];
  return {
    metadata: {
      name,
      namespace: place.namespace,
      labels: { ...legalLabels({ ...traits?.labels, ...labelsOfRecord(place) }), [ATTEMPT]: name },
      annotations: {
        [KEEP]: 'false',
        ...legalAnnotations(traits?.annotations ?? {}),
        ...(traits && { [JOB_KEY]: `${traits.job.service}/${traits.job.id}` }),
      },
      ownerReferences: ownersOf(place),
      finalizers: [HOLD],
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      activeDeadlineSeconds: deadlineOf(attempt, settings),
      terminationGracePeriodSeconds: graceSeconds,
      ...(pullSecrets.length > 0 && { imagePullSecrets: pullSecrets.map((each) => ({ name: each })) }),
      // Our programs and the script are different users, and share what they write by this group.
      securityContext: { fsGroup: user, seccompProfile: { type: 'RuntimeDefault' } },
      ...(settings.nodeSelector && { nodeSelector: settings.nodeSelector }),
      tolerations: [
        ...(settings.tolerations ?? []),
        ...['not-ready', 'unreachable'].map((taint) => ({
          key: `node.kubernetes.io/${taint}`,
          operator: 'Exists',
          effect: 'NoExecute',
          tolerationSeconds: nodeLossSeconds,
        })),
      ],
      initContainers: [stageIn(settings), stageOut(settings)],
      containers: [scriptContainer(attempt, settings)],
      volumes: [
        { name: SHARED, emptyDir: { sizeLimit: String(diskBytes) } },
        secretVolume(STAGE_IN, name, [ORDER_FILES.orders, ORDER_FILES.stores, ...input], 0o440),
        secretVolume(STAGE_OUT, name, [ORDER_FILES.orders, ORDER_FILES.stores], 0o440),
        secretVolume(CONFIG, name, [SCRIPT_FILE], 0o555),
      ],
    },
  };
}

function deadlineOf({ timeout, patience = 0 }: Attempt, { extraSeconds }: PodSettings): number {
  return Math.min(Math.ceil((timeout + patience) / 1_000) + extraSeconds, MOST_SECONDS);
}

/** Of the Secret of the attempt only what that container may see. */
function secretVolume(volume: string, secretName: string, keys: readonly string[], mode: number) {
  return { name: volume, secret: { secretName, items: keys.map((key) => ({ key, path: key, mode })) } };
}

function program(name: string, { image, pullPolicy, resources, user }: PodSettings) {
  return {
    name,
    image,
    imagePullPolicy: pullPolicy,
    args: [name],
    resources,
    securityContext: { ...OURS, runAsUser: user, runAsGroup: user },
    volumeMounts: [
      { name, mountPath: POD_LAYOUT.orders, readOnly: true },
      { name: SHARED, mountPath: POD_LAYOUT.shared },
    ],
  };
}

const stageIn = (settings: PodSettings) => program(STAGE_IN, settings);

/** Begins before the script and ends after it. */
function stageOut(settings: PodSettings) {
  const { port, probeSeconds } = settings;
  const readinessProbe = { httpGet: { path: '/', port }, periodSeconds: probeSeconds, failureThreshold: 1 };
  return { ...program(STAGE_OUT, settings), restartPolicy: 'Always', readinessProbe };
}

function scriptContainer(attempt: Attempt, { scriptPullPolicy, nonRoot }: PodSettings) {
  return {
    name: SCRIPT,
    image: attempt.image.trim(),
    imagePullPolicy: scriptPullPolicy,
    command: ['/bin/sh', '-c', verbatim(WRAPPER)],
    env: environmentOf(attempt).variables,
    resources: resourcesOf(attempt),
    securityContext: {
      allowPrivilegeEscalation: false,
      privileged: false,
      ...(nonRoot && { runAsNonRoot: true }),
      capabilities: { drop: ['ALL'], add: [...CAPABILITIES, ...(attempt.traits?.sgx ? ['SYS_RAWIO'] : [])] },
    },
    volumeMounts: [
      { name: CONFIG, mountPath: SCRIPT_VIEW.script.slice(0, -`/${SCRIPT_FILE}`.length), readOnly: true },
      ...SCRIPT_MOUNTS.map((mount) => ({ name: SHARED, ...mount })),
    ],
  };
}

/** A pod gets what its service says, no more and no less (contract §2.2). */
function resourcesOf({ demand, traits }: Attempt): Resources {
  const room = { cpu: `${Math.ceil(demand.cpu)}m`, memory: String(Math.ceil(demand.memory)) };
  const devices = {
    ...(demand.gpu > 0 && { 'nvidia.com/gpu': String(demand.gpu) }),
    ...(traits?.sgx && { 'sgx.intel.com/enclave': '1' }),
  };
  const disk = traits?.localDisk ? { 'ephemeral-storage': String(Math.ceil(traits.localDisk)) } : {};
  return { limits: { ...room, ...devices }, requests: { ...room, ...devices, ...disk } };
}
