import type { Attempt, PodTraits } from '../../../model/job/index.ts';
import {
  AUTHORITIES,
  ORDER_FILES,
  POD_LAYOUT,
  POD_WRAPPER,
  SCRIPT_MOUNTS,
  SCRIPT_VIEW,
  WARM_LAYOUT,
  WARM_PATHS,
  WARM_WRAPPER,
} from '../../../staging/index.ts';
import type { Toleration } from '../capacity/index.ts';
import { JOB_KEY, legalAnnotations, legalLabels } from '../objects/labels.ts';
import { buildEnvironment, escapeDollars, NODE_NAME, type Variable } from './environment.ts';
import { type AttemptPlace, isInputInBlobStore, ownerReferences, recordLabels } from './place.ts';
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
  /** Names of Secrets with which it is pulled, in each namespace where there are pods. */
  readonly pullSecrets?: readonly string[];
  /** Of the images of services. */
  readonly scriptPullPolicy: PullPolicy;
  /** Certificates that our programs are to trust besides those that they know, as PEM. */
  readonly authorities?: string;
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

/** Each a second: a node that is busy may take long to start a program. */
const STARTUP_LOOKS = 120;

const SHARED = 'shared';
const CONFIG = 'config';

/** The most that Kubernetes takes. */
const MOST_SECONDS = 2 ** 31 - 1;

/** As much as a Secret has room for, twice: what is new there is whole before it takes the place of what was. */
const MOST_GIVEN = '2Mi';

/** What images commonly need of root. Left out: raw sockets, device nodes, low ports, chroot, file capabilities, audit. */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID'];

const OURS = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;

/** The pod of an attempt: the input is put in place, the script runs, its output is brought away. */
export function buildPod(attempt: Attempt, place: AttemptPlace, settings: PodSettings): Pod {
  const { name } = attempt;
  const input = attempt.input.kind === 'bytes' && !isInputInBlobStore(attempt) ? [ORDER_FILES.input] : [];
  return {
    metadata: podMetadata(attempt, place),
    spec: {
      ...commonSpec(attempt, settings),
      activeDeadlineSeconds: podDeadlineSeconds(attempt, settings),
      initContainers: [stageIn(settings), stageOut(settings)],
      containers: [scriptContainer(attempt, POD_WRAPPER, buildEnvironment(attempt).variables, settings)],
      volumes: [
        sharedVolume(settings),
        secretVolume(STAGE_IN, name, [ORDER_FILES.orders, ORDER_FILES.stores, ...input], 0o440),
        secretVolume(STAGE_OUT, name, [ORDER_FILES.orders, ORDER_FILES.stores], 0o440),
        secretVolume(CONFIG, name, [SCRIPT_FILE], 0o555),
      ],
    },
  };
}

/** What is written on the pod of an attempt. */
export function podMetadata({ name, traits }: Attempt, place: AttemptPlace): Pod['metadata'] {
  return {
    name,
    namespace: place.namespace,
    labels: { ...legalLabels({ ...traits?.labels, ...recordLabels(place) }), [ATTEMPT]: name },
    annotations: {
      [KEEP]: 'false',
      ...legalAnnotations(traits?.annotations ?? {}),
      ...(traits && { [JOB_KEY]: `${traits.job.service}/${traits.job.id}` }),
    },
    ownerReferences: ownerReferences(place),
    finalizers: [HOLD],
  };
}

/** What a pod can be made from before there is an attempt for it. */
export type PodBasis = Pick<Attempt, 'image' | 'demand'> & { readonly traits?: Omit<PodTraits, 'job'> };

/** A pod that waits for an attempt: everything is there but what is to be done. It may go at any time. */
export function buildWarmPod(
  basis: PodBasis,
  place: Omit<AttemptPlace, 'record'> & { name: string },
  settings: PodSettings,
): Pod {
  const { name, namespace } = place;
  const { traits } = basis;
  return {
    metadata: {
      name,
      namespace,
      labels: { ...legalLabels(traits?.labels ?? {}), [ATTEMPT]: '' },
      annotations: { [KEEP]: 'true', ...legalAnnotations(traits?.annotations ?? {}) },
    },
    spec: {
      ...commonSpec(basis, settings),
      initContainers: [stageWait(settings)],
      containers: [waitingContainer(basis, settings)],
      volumes: [
        sharedVolume(settings),
        { name: STAGE_OUT, secret: { secretName: name, optional: true, defaultMode: 0o440 } },
        { name: CONFIG, emptyDir: { medium: 'Memory', sizeLimit: MOST_GIVEN } },
      ],
    },
  };
}

/** Kubernetes has them for a whole pod: those of the service first, then those for the programs beside its script. */
export function imagePullSecrets(ofService: readonly string[], { pullSecrets = [] }: Pick<PodSettings, 'pullSecrets'>) {
  const names = [...new Set([...ofService, ...pullSecrets])];
  return names.length > 0 ? { imagePullSecrets: names.map((name) => ({ name })) } : {};
}

function commonSpec({ traits }: PodBasis, settings: PodSettings) {
  const { user, graceSeconds, nodeLossSeconds } = settings;
  return {
    restartPolicy: 'Never',
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSeconds,
    ...imagePullSecrets(traits?.imagePullSecrets ?? [], settings),
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
  };
}

const sharedVolume = ({ diskBytes }: PodSettings) => ({ name: SHARED, emptyDir: { sizeLimit: String(diskBytes) } });

/** Seconds that the pod of an attempt has. */
export function podDeadlineSeconds({ timeout, patience = 0 }: Attempt, { extraSeconds }: PodSettings): number {
  return Math.min(Math.ceil((timeout + patience) / 1_000) + extraSeconds, MOST_SECONDS);
}

/** Of the Secret of the attempt only what that container may see. */
function secretVolume(volume: string, secretName: string, keys: readonly string[], mode: number) {
  return { name: volume, secret: { secretName, items: keys.map((key) => ({ key, path: key, mode })) } };
}

function program(name: string, settings: PodSettings) {
  const { image, pullPolicy, resources, user } = settings;
  return {
    name,
    image,
    imagePullPolicy: pullPolicy,
    args: [name],
    ...authoritiesEnv(settings),
    resources,
    securityContext: { ...OURS, runAsUser: user, runAsGroup: user },
    volumeMounts: [
      { name, mountPath: POD_LAYOUT.orders, readOnly: true },
      { name: SHARED, mountPath: POD_LAYOUT.shared },
    ],
  };
}

/** Not secret, and the same in each pod: no need for a Secret, which a pod that waits has too late. */
export const authoritiesEnv = ({ authorities }: Pick<PodSettings, 'authorities'>) =>
  authorities === undefined ? {} : { env: [{ name: AUTHORITIES, value: escapeDollars(authorities) }] };

const stageIn = (settings: PodSettings) => program(STAGE_IN, settings);

/** Begins before the script and ends after it. */
function stageOut(settings: PodSettings) {
  const { port, probeSeconds } = settings;
  const readinessProbe = { httpGet: { path: '/', port }, periodSeconds: probeSeconds, failureThreshold: 1 };
  return { ...program(STAGE_OUT, settings), restartPolicy: 'Always', readinessProbe };
}

/** The only program of ours in a pod that waits. The container of the script begins when it is up. */
function stageWait(settings: PodSettings) {
  const { port } = settings;
  const container = stageOut(settings);
  return {
    ...container,
    args: ['stage-wait', String(port)],
    startupProbe: { httpGet: { path: WARM_PATHS.up, port }, periodSeconds: 1, failureThreshold: STARTUP_LOOKS },
    volumeMounts: [...container.volumeMounts, { name: CONFIG, mountPath: WARM_LAYOUT.given }],
  };
}

/** Ready since its script has begun: what is beside it tells. */
function waitingContainer(basis: PodBasis, settings: PodSettings) {
  const { port, probeSeconds } = settings;
  return {
    ...scriptContainer(basis, WARM_WRAPPER, [NODE_NAME], settings),
    readinessProbe: { httpGet: { path: WARM_PATHS.begun, port }, periodSeconds: probeSeconds, failureThreshold: 1 },
  };
}

function scriptContainer(
  basis: PodBasis,
  wrapper: string,
  env: readonly Variable[],
  { scriptPullPolicy, nonRoot }: PodSettings,
) {
  return {
    name: SCRIPT,
    image: basis.image.trim(),
    imagePullPolicy: scriptPullPolicy,
    command: ['/bin/sh', '-c', escapeDollars(wrapper)],
    env,
    resources: scriptResources(basis),
    securityContext: {
      allowPrivilegeEscalation: false,
      privileged: false,
      ...(nonRoot && { runAsNonRoot: true }),
      capabilities: { drop: ['ALL'], add: [...CAPABILITIES, ...(basis.traits?.sgx ? ['SYS_RAWIO'] : [])] },
    },
    volumeMounts: [
      { name: CONFIG, mountPath: SCRIPT_VIEW.script.slice(0, -`/${SCRIPT_FILE}`.length), readOnly: true },
      ...SCRIPT_MOUNTS.map((mount) => ({ name: SHARED, ...mount })),
    ],
  };
}

/** A pod gets what its service says, no more and no less (docs/fdl.md#amounts). */
function scriptResources({ demand, traits }: PodBasis): Resources {
  const room = { cpu: `${Math.ceil(demand.cpu)}m`, memory: String(Math.ceil(demand.memory)) };
  const devices = {
    ...(demand.gpu > 0 && { 'nvidia.com/gpu': String(demand.gpu) }),
    ...(traits?.sgx && { 'sgx.intel.com/enclave': '1' }),
  };
  const disk = traits?.localDisk ? { 'ephemeral-storage': String(Math.ceil(traits.localDisk)) } : {};
  return { limits: { ...room, ...devices }, requests: { ...room, ...devices, ...disk } };
}
