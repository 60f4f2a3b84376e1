import { networks } from '../kinds/network.ts';
import { nodeLabels, tolerations } from '../kinds/nodes.ts';
import * as kind from '../kinds/single.ts';
import type { Settings } from './setting.ts';

export const kubernetes = {
  kubeconfig: {
    name: 'KUBECONFIG',
    kind: kind.text,
    unset: 'the service account of the pod that the manager runs in',
    meaning: 'The file that says how the Kubernetes API is reached.',
  },
  kubernetesRate: {
    name: 'OSCAR_KUBERNETES_RATE',
    kind: kind.count,
    default: '500',
    meaning: 'The most requests per second that the manager sends to the Kubernetes API in the long run.',
  },
  kubernetesBurst: {
    name: 'OSCAR_KUBERNETES_BURST',
    kind: kind.count,
    default: '1000',
    meaning: 'The most requests that it sends at once after a silence.',
  },
  leaderSeconds: {
    name: 'OSCAR_LEADER_SECONDS',
    kind: kind.seconds,
    default: '15',
    meaning:
      'How long the manager that leads may be silent before another one leads. Less: sooner after a crash, but also ' +
      'while the Kubernetes API is only slow.',
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
    meaning: 'The namespace of the services of the administrator; those of users begin with it.',
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
    meaning: 'The ConfigMap that holds the allowed image repositories. (A name, although it says path.)',
  },
  stagingImage: {
    name: 'OSCAR_STAGING_IMAGE',
    kind: kind.text,
    unset: 'required, unless `OSCAR_EXTERNAL_STORE` is `none`',
    meaning: 'The image of this manager: two small containers of it are in the pod of each job, and move its files.',
  },
  stagingPullPolicy: {
    name: 'OSCAR_STAGING_PULL_POLICY',
    kind: kind.oneOf('IfNotPresent', 'Always', 'Never'),
    default: 'IfNotPresent',
    meaning: 'When nodes pull it.',
  },
  stagingPullSecrets: {
    name: 'OSCAR_STAGING_PULL_SECRETS',
    kind: kind.objectNames,
    default: '',
    unset: 'none',
    meaning:
      'Secrets in the namespace of the manager with which nodes pull it, of type `kubernetes.io/dockerconfigjson` or `kubernetes.io/dockercfg`. They are copied into the namespaces of services.',
  },
  stagingCpuMillicores: {
    name: 'OSCAR_STAGING_CPU',
    kind: kind.cpu,
    default: '10m',
    meaning: 'How much CPU each of these containers asks for. It may use more.',
  },
  // 65 MB were measured of one that waits; whoever uploads large files holds some parts of them.
  stagingMemoryBytes: {
    name: 'OSCAR_STAGING_MEMORY',
    kind: kind.memory,
    default: '96Mi',
    meaning: 'How much memory each of them asks for.',
  },
  stagingMemoryLimitBytes: {
    name: 'OSCAR_STAGING_MEMORY_LIMIT',
    kind: kind.memory,
    default: '512Mi',
    meaning: 'The most memory that each of them may use.',
  },
  // As every manager before (docs/go-manager.md#kubernetes-objects): `:latest` is what it is today.
  imagePullPolicy: {
    name: 'OSCAR_IMAGE_PULL_POLICY',
    kind: kind.oneOf('Always', 'IfNotPresent', 'Never'),
    default: 'Always',
    meaning: 'When nodes pull the images of services.',
  },
  podDiskBytes: {
    name: 'OSCAR_POD_DISK',
    kind: kind.memory,
    default: '10Gi',
    meaning: 'How much disk the input and the output of one job may take.',
  },
  podNodeSelector: {
    name: 'OSCAR_POD_NODE_SELECTOR',
    kind: nodeLabels,
    default: '',
    unset: 'every node',
    meaning: 'Labels of the nodes that jobs may run on.',
  },
  podTolerations: {
    name: 'OSCAR_POD_TOLERATIONS',
    kind: tolerations,
    default: '',
    unset: 'none',
    meaning: 'Taints of nodes that jobs may run on all the same.',
  },
  podNonRoot: {
    name: 'OSCAR_POD_NON_ROOT',
    kind: kind.flag,
    default: 'false',
    meaning: 'Refuse images of services whose user is root.',
  },
  closedNetworks: {
    name: 'OSCAR_CLOSED_NETWORKS',
    kind: networks,
    default: '',
    unset: 'no policy is made',
    meaning:
      'Networks that pods in namespaces of users are not to reach, as the API server and the addresses at which clouds give nodes their credentials: a NetworkPolicy in each of them says so.',
  },
  warmPodsPerOwner: {
    name: 'OSCAR_WARM_PODS_PER_OWNER',
    kind: kind.countOrNone,
    default: '10',
    meaning:
      "How many pods are kept ready for the services of one user together (`synchronous.min_scale`). They hold room outside of the line in which jobs wait. Those of the administrator's services are not counted.",
  },
  serverlessBackend: {
    name: 'SERVERLESS_BACKEND',
    kind: kind.knative,
    unset: 'the manager itself: it starts a pod for each, or takes one that is kept ready',
    meaning: 'What answers synchronous invocations on Kubernetes.',
  },
} as const satisfies Settings;
