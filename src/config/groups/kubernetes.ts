import { networks } from '../kinds/network.ts';
import { nodeLabels, tolerations } from '../kinds/nodes.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const kubernetes = {
  kubeconfig: {
    name: 'KUBECONFIG',
    kind: kind.text,
    unset: 'the service account of the pod that the manager runs in',
    meaning: 'The kubeconfig file with which the manager connects to the Kubernetes API.',
  },
  kubernetesRate: {
    name: 'OSCAR_KUBERNETES_RATE',
    kind: kind.count,
    default: '500',
    meaning: 'The maximum number of requests per second that the manager sends to the Kubernetes API on average.',
  },
  kubernetesBurst: {
    name: 'OSCAR_KUBERNETES_BURST',
    kind: kind.count,
    default: '1000',
    meaning: 'The maximum number of requests in a burst.',
  },
  leaderSeconds: {
    name: 'OSCAR_LEADER_SECONDS',
    kind: kind.seconds,
    default: '15',
    meaning:
      'How long the leader may be silent before another manager becomes the leader. A smaller value speeds up take-over ' +
      'after a crash, but also causes it while the Kubernetes API is slow.',
  },
  namespace: {
    name: 'OSCAR_NAMESPACE',
    kind: kind.label,
    default: 'oscar',
    meaning: 'The namespace of the manager.',
  },
  servicesNamespace: {
    name: 'OSCAR_SERVICES_NAMESPACE',
    kind: kind.label,
    default: 'oscar-svc',
    meaning: "The namespace of the administrator's services; the names of users' namespaces begin with it.",
  },
  controllerServiceAccount: {
    name: 'OSCAR_CONTROLLER_SERVICE_ACCOUNT',
    kind: kind.objectName,
    default: 'oscar-sa',
    meaning: 'The service account of the manager.',
  },
  additionalConfigPath: {
    name: 'ADDITIONAL_CONFIG_PATH',
    kind: kind.objectName,
    default: 'config.yaml',
    meaning: 'The name of the ConfigMap with the allowed image repositories. (A name, not a path.)',
  },
  stagingImage: {
    name: 'OSCAR_STAGING_IMAGE',
    kind: kind.text,
    unset: 'required, unless `OSCAR_EXTERNAL_STORE` is `none`',
    meaning:
      'The image of this manager. The pod of each job has two small containers of it, which move the files of the job.',
  },
  stagingPullPolicy: {
    name: 'OSCAR_STAGING_PULL_POLICY',
    kind: kind.oneOf('IfNotPresent', 'Always', 'Never'),
    default: 'IfNotPresent',
    meaning: 'The pull policy of that image.',
  },
  stagingPullSecrets: {
    name: 'OSCAR_STAGING_PULL_SECRETS',
    kind: kind.objectNames,
    default: '',
    unset: 'none',
    meaning:
      'Secrets in the namespace of the manager with which nodes pull that image, of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`. They are copied into the namespaces of services.',
  },
  stagingCpuMillicores: {
    name: 'OSCAR_STAGING_CPU',
    kind: kind.cpu,
    default: '10m',
    meaning: 'The CPU request of each of these containers. They may use more.',
  },
  // An idle container was measured at 65 MB; one that uploads large files holds some parts of them in memory.
  stagingMemoryBytes: {
    name: 'OSCAR_STAGING_MEMORY',
    kind: kind.memory,
    default: '96Mi',
    meaning: 'The memory request of each of these containers.',
  },
  stagingMemoryLimitBytes: {
    name: 'OSCAR_STAGING_MEMORY_LIMIT',
    kind: kind.memory,
    default: '512Mi',
    meaning: 'The memory limit of each of these containers.',
  },
  // As with the Go manager (docs/go-manager.md#kubernetes-objects): `:latest` is the newest image.
  imagePullPolicy: {
    name: 'OSCAR_IMAGE_PULL_POLICY',
    kind: kind.oneOf('Always', 'IfNotPresent', 'Never'),
    default: 'Always',
    meaning: 'The pull policy of the images of services.',
  },
  podDiskBytes: {
    name: 'OSCAR_POD_DISK',
    kind: kind.memory,
    default: '10Gi',
    meaning: 'How much disk the input and output of one job may use.',
  },
  podNodeSelector: {
    name: 'OSCAR_POD_NODE_SELECTOR',
    kind: nodeLabels,
    default: '',
    unset: 'every node',
    meaning: 'Labels of the nodes on which jobs may run.',
  },
  podTolerations: {
    name: 'OSCAR_POD_TOLERATIONS',
    kind: tolerations,
    default: '',
    unset: 'none',
    meaning: 'Taints of nodes that the pods of jobs tolerate.',
  },
  podNonRoot: {
    name: 'OSCAR_POD_NON_ROOT',
    kind: kind.flag,
    default: 'false',
    meaning: 'Reject images of services that run as root.',
  },
  closedNetworks: {
    name: 'OSCAR_CLOSED_NETWORKS',
    kind: networks,
    default: '',
    unset: 'no NetworkPolicy is created',
    meaning:
      "Networks that pods in users' namespaces must not reach, such as the API server and the cloud addresses from which nodes get their credentials. The manager creates a NetworkPolicy in each of these namespaces.",
  },
  warmPodsPerOwner: {
    name: 'OSCAR_WARM_PODS_PER_OWNER',
    kind: kind.countOrNone,
    default: '10',
    meaning:
      "The maximum number of warm pods (`synchronous.min_scale`) for all services of one user. Warm pods use resources without waiting in the job queue. Those of the administrator's services are not counted.",
  },
  serverlessBackend: {
    name: 'SERVERLESS_BACKEND',
    kind: kind.knative,
    unset: 'the manager itself, which starts a pod for each invocation, or uses a warm pod',
    meaning: 'What runs synchronous invocations on Kubernetes.',
  },
} as const satisfies Settings;
