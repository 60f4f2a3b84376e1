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

/** Quantities in the format of Kubernetes. */
export interface Resources {
  readonly requests?: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
}

export interface PodSettings {
  /** Image of the manager, which contains `stage-in` and `stage-out`. */
  readonly image: string;
  readonly pullPolicy: PullPolicy;
  /** Names of the Secrets with which it is pulled, in each namespace with pods. */
  readonly pullSecrets?: readonly string[];
  /** Pull policy of the images of services. */
  readonly scriptPullPolicy: PullPolicy;
  /** Additional certificates that the staging programs trust, as PEM. */
  readonly authorities?: string;
  /** Resources of stage-in and of stage-out. */
  readonly resources: Resources;
  /** User id of the staging programs: the user of the manager's image. */
  readonly user: number;
  /** Reject images whose user is root. */
  readonly nonRoot: boolean;
  /** Limit in bytes for input, output and the files of the staging programs together. */
  readonly diskBytes: number;
  readonly graceSeconds: number;
  /** Port on which stage-out reports the end of the script to the kubelet's probe, and the period of that probe. */
  readonly port: number;
  readonly probeSeconds: number;
  /** How long a pod stays bound to a node that does not answer. */
  readonly nodeLossSeconds: number;
  /**
   * Time of a pod in addition to the timeout of its script, for image, input and output. Then the kubelet ends it, even if
   * no manager runs. A shorter time cuts off slow uploads; with a longer one a script that evades its timeout runs longer.
   */
  readonly extraSeconds: number;
  /** The nodes for jobs, and their tolerated taints. */
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly tolerations?: readonly Toleration[];
}

/** Annotation for the cluster autoscaler: a script that has begun is never restarted, so its node must not be removed. */
const KEEP = 'cluster-autoscaler.kubernetes.io/safe-to-evict';

/** Startup probes, one per second: a busy node may need long to start a program. */
const STARTUP_PROBES = 120;

const SHARED = 'shared';
const CONFIG = 'config';

/** Kubernetes' limit for deadlines. */
const MOST_SECONDS = 2 ** 31 - 1;

/** Twice the limit of a Secret: new content is complete before it replaces the old one. */
const MOST_GIVEN = '2Mi';

/** Capabilities that images commonly need. Left out: raw sockets, device nodes, low ports, chroot, file capabilities, audit. */
const CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'FSETID', 'KILL', 'SETGID', 'SETUID'];

const OURS = {
  runAsNonRoot: true,
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
} as const;

/** The pod of an attempt: stage-in fetches the input, the script runs, stage-out delivers the output. */
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

/** The metadata of the pod of an attempt. */
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

/** What determines a pod before there is an attempt for it. */
export type PodBasis = Pick<Attempt, 'image' | 'demand'> & { readonly traits?: Omit<PodTraits, 'job'> };

/** A warm pod that waits for an attempt: it has everything except the orders, and may be removed at any time. */
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

/** Pull secrets are per pod: those of the service first, then those of the manager's image. */
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
    // The staging programs and the script run as different users and share files through this group.
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

/** The deadline of the pod of an attempt, in seconds. */
export function podDeadlineSeconds({ timeout, patience = 0 }: Attempt, { extraSeconds }: PodSettings): number {
  return Math.min(Math.ceil((timeout + patience) / 1_000) + extraSeconds, MOST_SECONDS);
}

/** A volume with only those keys of the attempt's Secret that the container may see. */
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

/** Certificates are not secret, so they are in the pod spec: a warm pod gets its Secret too late. */
export const authoritiesEnv = ({ authorities }: Pick<PodSettings, 'authorities'>) =>
  authorities === undefined ? {} : { env: [{ name: AUTHORITIES, value: escapeDollars(authorities) }] };

const stageIn = (settings: PodSettings) => program(STAGE_IN, settings);

/** A sidecar: it starts before the script and ends after it. */
function stageOut(settings: PodSettings) {
  const { port, probeSeconds } = settings;
  const readinessProbe = { httpGet: { path: '/', port }, periodSeconds: probeSeconds, failureThreshold: 1 };
  return { ...program(STAGE_OUT, settings), restartPolicy: 'Always', readinessProbe };
}

/** The only staging program in a warm pod. The container of the script starts when it is up. */
function stageWait(settings: PodSettings) {
  const { port } = settings;
  const container = stageOut(settings);
  return {
    ...container,
    args: ['stage-wait', String(port)],
    startupProbe: { httpGet: { path: WARM_PATHS.up, port }, periodSeconds: 1, failureThreshold: STARTUP_PROBES },
    volumeMounts: [...container.volumeMounts, { name: CONFIG, mountPath: WARM_LAYOUT.given }],
  };
}

/** The script's container in a warm pod. It is ready when its script has begun, which the sidecar reports. */
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

/** Requests and limits are both what the service says (docs/fdl.md#amounts). */
function scriptResources({ demand, traits }: PodBasis): Resources {
  const amounts = { cpu: `${Math.ceil(demand.cpu)}m`, memory: String(Math.ceil(demand.memory)) };
  const devices = {
    ...(demand.gpu > 0 && { 'nvidia.com/gpu': String(demand.gpu) }),
    ...(traits?.sgx && { 'sgx.intel.com/enclave': '1' }),
  };
  const disk = traits?.localDisk ? { 'ephemeral-storage': String(Math.ceil(traits.localDisk)) } : {};
  return { limits: { ...amounts, ...devices }, requests: { ...amounts, ...devices, ...disk } };
}
