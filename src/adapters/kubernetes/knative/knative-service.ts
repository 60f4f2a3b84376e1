import { createHash } from 'node:crypto';
import { bytes, millicores, type Service, serviceAnnotations, serviceLabels } from '../../../model/service/index.ts';
import { CALL_LAYOUT, CALL_MOUNTS, CALL_WRAPPER } from '../../../staging/index.ts';
import { CONFIG_MAP, type KubeKind, type KubeObject, type Stored } from '../client/kinds.ts';
import { derivedName, legalAnnotations, legalLabels } from '../objects/labels.ts';
import { authoritiesEnv, escapeDollars, imagePullSecrets, type PodSettings, SCRIPT } from '../runner/index.ts';

export const KNATIVE_SERVICE: KubeKind = {
  apiVersion: 'serving.knative.dev/v1',
  kind: 'Service',
  plural: 'services',
};

/** The fields that the manager reads. */
export interface KnativeService extends KubeObject {
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly conditions?: readonly KnativeCondition[];
    /** The address within the cluster. */
    readonly address?: { readonly url?: string };
  };
}

export interface KnativeCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastTransitionTime?: string;
}

export interface KnativeSettings
  extends Pick<
    PodSettings,
    | 'image'
    | 'pullPolicy'
    | 'pullSecrets'
    | 'authorities'
    | 'scriptPullPolicy'
    | 'resources'
    | 'nonRoot'
    | 'diskBytes'
    | 'nodeSelector'
    | 'tolerations'
  > {
  /** The longest duration of a call. */
  readonly timeoutSeconds: number;
}

/** Label on pods that answer calls: the name of the service. */
export const CALLS = 'oscar.grycap/calls';

/** Annotation on a Knative Service: a digest of what it was built from, since Knative adds fields of its own. */
export const DIGEST = 'oscar.grycap/knative-digest';

/** Annotation on a Knative Service: the Secret with the token of its pods. */
export const TOKEN_NAME = 'oscar.grycap/calls-token';

/** The name of the container with the port. */
const PROGRAM = 'answer-calls';

const TOKEN = 'token';

/** The same restriction as in `pod-spec.ts`; Knative does not allow adding capabilities, only dropping them. */
const DROPPED = ['AUDIT_WRITE', 'MKNOD', 'NET_BIND_SERVICE', 'NET_RAW', 'SETFCAP', 'SETPCAP', 'SYS_CHROOT'];

/** The user of the manager's image. */
const USER = 1000;

const SECCOMP = { seccompProfile: { type: 'RuntimeDefault' } } as const;

/** The name of the Secret with the token, in the namespace of the service. */
export const tokenName = ({ uid }: Pick<Service, 'uid'>) => derivedName('calls', uid);

/** The key in that Secret. */
export const TOKEN_KEY = TOKEN;

/** Whether this cluster answers its calls. Those of a worker are answered by the coordinator's cluster. */
export const isCalledHere = ({ federation }: Service) => federation?.role !== 'worker';

/** The Knative Service of a service (decision 0025): its image, and a sidecar of the manager that has the port. */
export function buildKnativeService(
  service: Service,
  definition: Stored<KubeObject>,
  settings: KnativeSettings,
): KnativeService {
  const { name, enable_sgx } = service.definition;
  const { apiVersion, kind } = CONFIG_MAP;
  const labels = {
    ...legalLabels(withoutKnativeKeys(serviceLabels(service))),
    'networking.knative.dev/visibility': 'cluster-local',
  };
  const annotations = {
    ...legalAnnotations(withoutKnativeKeys(serviceAnnotations(service))),
    [TOKEN_NAME]: tokenName(service),
    ...(enable_sgx && {
      'kubernetes.podspec-securitycontext': 'enabled',
      'kubernetes.containerspec-addcapabilities': 'enabled',
    }),
  };
  const spec = { template: buildTemplate(service, settings) };
  return {
    metadata: {
      name,
      namespace: service.namespace,
      labels,
      annotations: { ...annotations, [DIGEST]: digest({ labels, annotations, spec }) },
      ownerReferences: [{ apiVersion, kind, name: definition.metadata.name, uid: definition.metadata.uid }],
    },
    spec,
  };
}

/** Drops keys of users that Knative would interpret. */
function withoutKnativeKeys(texts: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter(([key]) => !/(^|\.)knative\.dev\//.test(key)));
}

const digest = (object: unknown) => createHash('sha256').update(JSON.stringify(object)).digest('hex').slice(0, 16);

function buildTemplate(service: Service, settings: KnativeSettings) {
  const { name, synchronous, image_pull_secrets = [] } = service.definition;
  const { vo } = serviceLabels(service);
  return {
    metadata: {
      labels: { ...legalLabels({ ...(vo !== undefined && { vo }) }), [CALLS]: name },
      annotations: {
        'autoscaling.knative.dev/min-scale': String(minScale(synchronous)),
        'autoscaling.knative.dev/max-scale': String(synchronous.max_scale),
      },
    },
    spec: {
      // A pod answers one call at a time.
      containerConcurrency: 1,
      timeoutSeconds: settings.timeoutSeconds,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...imagePullSecrets(image_pull_secrets, settings),
      // Knative accepts these only if its operator enables them, so they are sent only if they are set.
      ...(settings.nodeSelector &&
        Object.keys(settings.nodeSelector).length > 0 && { nodeSelector: settings.nodeSelector }),
      ...(settings.tolerations && settings.tolerations.length > 0 && { tolerations: settings.tolerations }),
      containers: [scriptContainer(service, settings), program(settings)],
      volumes: [
        { name: 'shared', emptyDir: { sizeLimit: String(settings.diskBytes) } },
        { name: TOKEN, secret: { secretName: tokenName(service), items: [{ key: TOKEN_KEY, path: TOKEN_KEY }] } },
      ],
    },
  };
}

/** Knative rejects a minimum above the maximum; a definition may have one, and then the maximum counts. */
const minScale = ({ min_scale, max_scale }: Service['definition']['synchronous']) =>
  max_scale === 0 ? min_scale : Math.min(min_scale, max_scale);

function scriptContainer({ definition }: Service, { scriptPullPolicy, nonRoot }: KnativeSettings) {
  return {
    name: SCRIPT,
    image: definition.image.trim(),
    imagePullPolicy: scriptPullPolicy,
    command: ['/bin/sh', '-c', escapeDollars(CALL_WRAPPER)],
    resources: scriptResources(definition),
    securityContext: {
      allowPrivilegeEscalation: false,
      ...(nonRoot && { runAsNonRoot: true }),
      capabilities: { drop: DROPPED, ...(definition.enable_sgx && { add: ['SYS_RAWIO'] }) },
      ...SECCOMP,
    },
    volumeMounts: CALL_MOUNTS.map((mount) => ({ name: 'shared', ...mount })),
  };
}

function program(settings: KnativeSettings) {
  const { image, pullPolicy, resources } = settings;
  return {
    name: PROGRAM,
    image,
    imagePullPolicy: pullPolicy,
    args: [PROGRAM],
    ...authoritiesEnv(settings),
    ports: [{ containerPort: 8080 }],
    resources,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
      ...SECCOMP,
    },
    volumeMounts: [
      { name: 'shared', mountPath: CALL_LAYOUT.shared },
      { name: TOKEN, mountPath: CALL_LAYOUT.token.slice(0, -`/${TOKEN_KEY}`.length), readOnly: true },
    ],
  };
}

/** Requests and limits are both what the service says (docs/fdl.md#amounts). */
function scriptResources({ cpu, memory, enable_gpu, enable_sgx, ephemeral_storage_request }: Service['definition']) {
  const room = { cpu: `${Math.ceil(millicores(cpu) ?? 0)}m`, memory: String(Math.ceil(bytes(memory) ?? 0)) };
  const devices = { ...(enable_gpu && { 'nvidia.com/gpu': '1' }), ...(enable_sgx && { 'sgx.intel.com/enclave': '1' }) };
  const disk = bytes(ephemeral_storage_request);
  const asked = disk === undefined ? {} : { 'ephemeral-storage': String(Math.ceil(disk)) };
  return { limits: { ...room, ...devices }, requests: { ...room, ...devices, ...asked } };
}
