import { clusters } from './kinds/clusters.ts';
import { listenAddress, networks } from './kinds/network.ts';
import { nodeLabels, tolerations } from './kinds/nodes.ts';
import { providers } from './kinds/providers.ts';
import type { Field, Values } from './kinds/record.ts';
import * as kind from './kinds/single.ts';

/**
 * Every setting once. `docs/configuration.md` is made from these tables (`node tools/generate-docs.ts`), and the type
 * `Config` from their kinds: a setting with a default always has a value.
 */
export interface Setting extends Omit<Field, 'default' | 'required'> {
  /** As one would write it; `<NAME>` stands for the number that another setting has. */
  readonly default?: string | Readonly<Record<Backend, string>>;
  /** What holds when it is not set and there is no default. */
  readonly unset?: string;
}

type Settings = Readonly<Record<string, Setting>>;

const BACKENDS = ['local', 'kubernetes'] as const;
export type Backend = (typeof BACKENDS)[number];

const cluster = {
  backend: {
    name: 'OSCAR_BACKEND',
    kind: kind.oneOf(...BACKENDS),
    default: 'local',
    meaning: 'Where services and jobs live: on this machine, or in the Kubernetes cluster the manager runs in.',
  },
  clusterId: {
    name: 'OSCAR_CLUSTER_ID',
    kind: kind.clusterId,
    default: 'oscar-cluster',
    meaning: 'The id of this cluster in federations.',
  },
  endpoint: {
    name: 'OSCAR_ENDPOINT',
    kind: kind.url,
    unset: 'none; needed where other clusters are to reach this one',
    meaning: 'The address under which users and other clusters reach this manager.',
  },
  name: {
    name: 'OSCAR_NAME',
    kind: kind.label,
    default: 'oscar',
    meaning: 'The name of this manager: owner of the buckets of the administrator, and its service on Kubernetes.',
  },
} as const satisfies Settings;

const server = {
  listen: {
    name: 'OSCAR_LISTEN',
    kind: listenAddress('OSCAR_SERVICE_PORT'),
    default: { local: '127.0.0.1', kubernetes: '0.0.0.0' },
    meaning: 'Where the manager listens. Without a port it is `OSCAR_SERVICE_PORT`.',
  },
  servicePort: {
    name: 'OSCAR_SERVICE_PORT',
    kind: kind.port,
    default: '8080',
    meaning: 'The port of the manager.',
  },
  readTimeoutSeconds: {
    name: 'READ_TIMEOUT',
    kind: kind.seconds,
    default: '300',
    meaning: 'How long a request may take to arrive.',
  },
  writeTimeoutSeconds: {
    name: 'WRITE_TIMEOUT',
    kind: kind.seconds,
    default: '300',
    meaning: 'How long an answer may take, a synchronous invocation included.',
  },
  corsOrigins: {
    name: 'OSCAR_CORS_ORIGINS',
    kind: kind.origins,
    default: '',
    meaning: 'Web pages of other origins that may call this manager. None if empty, all with `*`.',
  },
  metricsToken: {
    name: 'OSCAR_METRICS_TOKEN',
    kind: kind.secret,
    unset: 'none: only the administrator reads them',
    meaning: 'The bearer token with which Prometheus reads `/metrics`.',
  },
  tracesEndpoint: {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    kind: kind.url,
    unset: 'none: there are no traces',
    meaning: 'A collector of traces (OTLP over HTTP): each job becomes one, over all clusters that it ran on.',
  },
  tracesHeaders: {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    kind: kind.secret,
    unset: 'none',
    meaning: 'Headers for the collector, as `name=value,name=value`.',
  },
  logLevel: {
    name: 'OSCAR_LOG_LEVEL',
    kind: kind.oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    default: 'info',
    meaning: 'The least important messages that are logged.',
  },
  logFormat: {
    name: 'OSCAR_LOG_FORMAT',
    kind: kind.oneOf('auto', 'json', 'pretty'),
    default: 'auto',
    meaning: 'One JSON object per line, or text for people; `auto` is text on a terminal and JSON elsewhere.',
  },
} as const satisfies Settings;

const users = {
  username: {
    name: 'OSCAR_USERNAME',
    kind: kind.accountName,
    default: 'oscar',
    meaning: 'The name of the administrator.',
  },
  password: {
    name: 'OSCAR_PASSWORD',
    kind: kind.secret,
    unset: 'local: made at the first start; kubernetes: required',
    meaning: 'The password of the administrator.',
  },
  oidcEnable: {
    name: 'OIDC_ENABLE',
    kind: kind.flag,
    default: 'false',
    meaning: 'Let users of the issuers in with their access tokens.',
  },
  oidcIssuers: {
    name: 'OIDC_ISSUERS',
    kind: kind.issuers,
    default: '',
    meaning: 'The issuers whose tokens are accepted. Required with `OIDC_ENABLE`.',
  },
  oidcGroups: {
    name: 'OIDC_GROUPS',
    kind: kind.texts,
    default: '',
    meaning: 'Users must be in one of these groups. Every user of the issuers is let in if empty.',
  },
  oidcGroupsClaim: {
    name: 'OIDC_GROUPS_CLAIM',
    kind: kind.text,
    unset: 'the usual one of each issuer, `group_membership` for those not known',
    meaning: 'The claim that holds the groups of a user.',
  },
  oidcAudience: {
    name: 'OIDC_AUDIENCE',
    kind: kind.text,
    unset: 'the audience is not checked',
    meaning: 'The audience that tokens must be made for.',
  },
  oidcClientId: {
    name: 'OIDC_CLIENT_ID',
    kind: kind.text,
    unset: 'the one that a refresh token names, if it is a JWT',
    meaning: 'The client under which this manager redeems and revokes the refresh tokens of federated services.',
  },
  oidcClientSecret: {
    name: 'OIDC_CLIENT_SECRET',
    kind: kind.secret,
    unset: 'none: a public client',
    meaning: 'The secret of that client.',
  },
  oidcTokenExchange: {
    name: 'OIDC_TOKEN_EXCHANGE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Make the tokens that are sent to another cluster for that one alone: their audience is its id. Only with issuers ' +
      'that offer token exchange (RFC 8693).',
  },
  usersAdmin: {
    name: 'USERS_ADMIN',
    kind: kind.texts,
    default: '',
    meaning: 'Uids of users who see the whole status and the execution log of the cluster.',
  },
} as const satisfies Settings;

const store = {
  minioEndpoint: {
    name: 'MINIO_ENDPOINT',
    kind: kind.url,
    default: { local: 'http://127.0.0.1:<OSCAR_STORE_PORT>', kubernetes: 'https://minio-service.minio:9000' },
    meaning: 'The object store of this cluster. The local backend starts its own unless another one is named here.',
  },
  externalStore: {
    name: 'OSCAR_EXTERNAL_STORE',
    kind: kind.oneOf('minio', 's3', 'none'),
    default: 'minio',
    meaning:
      'What is done with a store that this manager does not run itself. `minio`: its buckets, users, rights and events ' +
      'are arranged, through the admin API of MinIO (see [MinIO](minio.md)). `s3`: one without that API; what works then is ' +
      '[there too](minio.md#stores-without-minios-admin-api). `none`: nothing is arranged; services then have no buckets ' +
      'and run on no files.',
  },
  storeEventTargets: {
    name: 'OSCAR_STORE_EVENT_TARGETS',
    kind: kind.texts,
    default: '',
    meaning:
      'With `OSCAR_EXTERNAL_STORE=s3`: what the store calls the places that report new objects to this manager, as ' +
      '`arn:minio:sqs::OSCAR_DURABLE:webhook`. Without any, objects are found by looking, after a few minutes.',
  },
  minioPublicEndpoint: {
    name: 'MINIO_PUBLIC_ENDPOINT',
    kind: kind.url,
    unset: '`MINIO_ENDPOINT`',
    meaning: 'The address of the store that users and other clusters are told.',
  },
  minioAccessKey: {
    name: 'MINIO_ACCESS_KEY',
    kind: kind.secret,
    unset: 'own store: made at the first start; otherwise required',
    meaning: 'The access key of the store.',
  },
  minioSecretKey: {
    name: 'MINIO_SECRET_KEY',
    kind: kind.secret,
    unset: 'own store: made at the first start; otherwise required',
    meaning: 'The secret key of the store.',
  },
  minioRegion: { name: 'MINIO_REGION', kind: kind.text, default: 'us-east-1', meaning: 'The region of the store.' },
  minioTlsVerify: {
    name: 'MINIO_TLS_VERIFY',
    kind: kind.flag,
    default: 'true',
    meaning: 'Verify the certificate of the store.',
  },
  storePort: {
    name: 'OSCAR_STORE_PORT',
    kind: kind.anyPort,
    default: '9000',
    meaning: 'The port of the store that the local backend starts.',
  },
  storageProviders: {
    name: 'OSCAR_STORAGE_PROVIDERS',
    kind: providers,
    default: '{}',
    meaning: 'Stores that definitions may name without carrying their keys. See [below](#storage-providers).',
  },
} as const satisfies Settings;

const federation = {
  clusters: {
    name: 'OSCAR_CLUSTERS',
    kind: clusters,
    default: '{}',
    meaning:
      'The clusters this one knows. They count before what a definition says about the same id. ' +
      'See [below](#clusters).',
  },
  reconcileIntervalSeconds: {
    name: 'OSCAR_RECONCILE_INTERVAL',
    kind: kind.seconds,
    default: '60',
    meaning: 'How often the members of federations are looked at, so that what went wrong there is put right.',
  },
  maxMembers: {
    name: 'OSCAR_MAX_MEMBERS',
    kind: kind.count,
    default: '100',
    meaning: 'The most members that one federation may have.',
  },
  grantWarnDays: {
    name: 'OSCAR_GRANT_WARN_DAYS',
    kind: kind.count,
    default: '30',
    meaning: 'After how many days a federation shows that its refresh token is old.',
  },
  leaseSeconds: {
    name: 'OSCAR_LEASE_SECONDS',
    kind: kind.seconds,
    default: '90',
    meaning:
      'How long another cluster may be silent about a job that it runs for this one. It speaks three times in it.',
  },
  leaseGraceSeconds: {
    name: 'OSCAR_LEASE_GRACE_SECONDS',
    kind: kind.secondsOrNone,
    default: '60',
    meaning: 'How much longer it is waited for before the job is given to somebody else.',
  },
  peerNetworks: {
    name: 'OSCAR_PEER_NETWORKS',
    kind: networks,
    default: '',
    meaning:
      'Private networks that definitions may point to. Otherwise they may name registered clusters and, over https, ' +
      'public addresses.',
  },
} as const satisfies Settings;

const jobs = {
  maxEventBytes: {
    name: 'OSCAR_MAX_EVENT_BYTES',
    kind: kind.size,
    default: '8Mi',
    meaning: 'The largest event or input that an invocation may bring.',
  },
  jobTimeoutSeconds: {
    name: 'OSCAR_JOB_TIMEOUT',
    kind: kind.seconds,
    default: '86400',
    meaning: 'How long a script may run. A service may ask for less with the annotation `oscar-manager/job-timeout`.',
  },
  maxLogBytes: {
    name: 'OSCAR_MAX_LOG_BYTES',
    kind: kind.size,
    default: '10Mi',
    meaning: 'How much of what a script prints is kept.',
  },
  eventsToken: {
    name: 'OSCAR_EVENTS_TOKEN',
    kind: kind.secret,
    unset: 'none: such events are refused',
    meaning: 'The bearer token with which a store reports new objects to `POST /system/events/storage`.',
  },
  jobTtlSeconds: {
    name: 'TTL_JOB',
    kind: kind.secondsOrNone,
    default: '2592000',
    meaning: 'How long a job is remembered after its end.',
  },
  jobListingLimit: {
    name: 'JOB_LISTING_LIMIT',
    kind: kind.count,
    default: '70',
    meaning: 'How many jobs, or objects of a bucket, one page of a listing holds.',
  },
  resourceManagerEnable: {
    name: 'RESOURCE_MANAGER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning: 'Watch what is free in this cluster, so that jobs of federated services go elsewhere when it is full.',
  },
  resourceManagerIntervalSeconds: {
    name: 'RESOURCE_MANAGER_INTERVAL',
    kind: kind.seconds,
    default: '15',
    meaning: 'How often that is looked at.',
  },
  reschedulerEnable: {
    name: 'RESCHEDULER_ENABLE',
    kind: kind.flag,
    default: 'true',
    meaning: 'Offer jobs of federated services that wait too long to other members.',
  },
  reschedulerIntervalSeconds: {
    name: 'RESCHEDULER_INTERVAL',
    kind: kind.seconds,
    default: '10',
    meaning: 'How often waiting jobs are looked at.',
  },
  reschedulerThresholdSeconds: {
    name: 'RESCHEDULER_THRESHOLD',
    kind: kind.seconds,
    default: '10',
    meaning: 'How long a job may wait, unless its service says otherwise.',
  },
} as const satisfies Settings;

const local = {
  dataDir: {
    name: 'OSCAR_DATA_DIR',
    kind: kind.text,
    default: './.oscar',
    meaning: 'The directory that holds everything: services, jobs, objects and the secrets made at the first start.',
  },
  localCpuMillicores: {
    name: 'OSCAR_LOCAL_CPU',
    kind: kind.cpu,
    unset: 'all of this machine',
    meaning: 'How much CPU jobs get together. Those that do not fit wait, or go elsewhere.',
  },
  localMemoryBytes: {
    name: 'OSCAR_LOCAL_MEMORY',
    kind: kind.memory,
    unset: 'all of this machine',
    meaning: 'How much memory jobs get together.',
  },
  localRuntime: {
    name: 'OSCAR_LOCAL_RUNTIME',
    kind: kind.oneOf('auto', 'docker', 'process'),
    default: 'auto',
    meaning:
      'How scripts run: in containers of their image (`docker`, which may be Podman), or as plain processes of this ' +
      'machine (`process`); `auto` is containers if Docker answers.',
  },
  localUid: {
    name: 'OSCAR_LOCAL_UID',
    kind: kind.count,
    default: '60600',
    meaning:
      'With plain processes and a manager that is root: the first of 500 user ids that scripts run under, one for ' +
      'each that runs. Nobody else may have them: whatever they run is ended with a job.',
  },
  localDiskBytes: {
    name: 'OSCAR_LOCAL_DISK',
    kind: kind.memory,
    default: '10Gi',
    meaning: 'How much disk the files of one job may take.',
  },
  localAllowRemote: {
    name: 'OSCAR_LOCAL_ALLOW_REMOTE',
    kind: kind.flag,
    default: 'false',
    meaning:
      'Allow `OSCAR_LISTEN` to be an address that other machines reach. **Whoever may create a service then runs ' +
      'programs on this machine**, as processes of the manager.',
  },
} as const satisfies Settings;

const kubernetes = {
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
  stagingCpuMillicores: {
    name: 'OSCAR_STAGING_CPU',
    kind: kind.cpu,
    default: '10m',
    meaning: 'How much CPU each of these containers asks for. It may use more.',
  },
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
  serverlessBackend: {
    name: 'SERVERLESS_BACKEND',
    kind: kind.knative,
    unset: 'none: a pod is started for each invocation',
    meaning: 'What answers synchronous invocations. Knative is not used yet: with it, too, a pod is started for each.',
  },
} as const satisfies Settings;

const unsupported = {
  kueueEnable: {
    name: 'KUEUE_ENABLE',
    kind: kind.unsupported,
    default: 'false',
    meaning: 'Queues and quotas per user with Kueue.',
  },
  yunikornEnable: {
    name: 'YUNIKORN_ENABLE',
    kind: kind.unsupported,
    default: 'false',
    meaning: 'Queues per service with YuniKorn.',
  },
  volumeEnable: {
    name: 'VOLUME_ENABLE',
    kind: kind.unsupported,
    default: 'false',
    meaning: 'Volumes that outlive jobs.',
  },
  kserveEnable: {
    name: 'KSERVE_ENABLE',
    kind: kind.unsupported,
    default: 'false',
    meaning: 'Model servers with KServe.',
  },
  minioQuotaEnabled: {
    name: 'MINIO_QUOTA_ENABLED',
    kind: kind.unsupported,
    default: 'false',
    meaning: 'Quotas for buckets.',
  },
} as const satisfies Settings;

interface Group {
  readonly title: string;
  readonly settings: Settings;
}

export const GROUPS: readonly Group[] = [
  { title: 'This cluster', settings: cluster },
  { title: 'Server and logs', settings: server },
  { title: 'Administrator and users', settings: users },
  { title: 'Object store', settings: store },
  { title: 'Federation', settings: federation },
  { title: 'Jobs', settings: jobs },
  { title: 'With `OSCAR_BACKEND=local`', settings: local },
  { title: 'With `OSCAR_BACKEND=kubernetes`', settings: kubernetes },
  { title: 'Not supported yet', settings: unsupported },
];

export const SETTINGS = {
  ...cluster,
  ...server,
  ...users,
  ...store,
  ...federation,
  ...jobs,
  ...local,
  ...kubernetes,
  ...unsupported,
} as const satisfies Settings;

/** The settings as they were read. */
export interface Config extends Values<typeof SETTINGS> {}
