import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox';
import { DELEGATE_WHEN, DEPLOYMENTS, OUTPUT_RULES, POLICY_NAMES, TOPOLOGIES } from './federation-options.ts';
import {
  MAX_ALLOWED_USERS,
  MAX_CONTAINER_OPTIONS,
  MAX_FOLDERS,
  MAX_MAP_ENTRIES,
  MAX_MEMBERS,
  MAX_NAMED_PLACES,
  MAX_STORAGE_PATHS,
} from './limits.ts';

/**
 * The service definition on the wire (docs/fdl.md#all-keys). One schema gives the TypeScript types, decodes request
 * bodies, encodes answers, and becomes OpenAPI and the editors' JSON Schema.
 *
 * Keys are written in the order of the schema. A required key is always written, if need be with its zero value; an
 * optional key is written only when it is not empty.
 */

/**
 * What a key accepts in addition to its type, because clients send it (docs/api.md#what-old-clients-rely-on); `codec.ts`
 * converts it. `number`: a number for a string, `cpu: 1`. `single`: one value for a list, 0 for none, `nodePort: 0`
 * before v4.1. `mode`: a delegation as `{mode, weights}`.
 */
export type Leniency = 'number' | 'single' | 'mode';

interface Options {
  /** Used for an absent or empty value. */
  default?: string | boolean;
  enum?: string[];
  accepts?: Leniency;
  /** If the client sent it, it is written even when it is zero. */
  keepZero?: boolean;
}

interface ListOptions {
  /** A request with a longer list is rejected before its entries are read. */
  maxItems?: number;
}

const text = (description: string, options: Options = {}) => Type.String({ description, ...options });
const flag = (description: string, options: Options = {}) => Type.Boolean({ description, ...options });
const count = (description: string, options: Options = {}) => Type.Integer({ description, ...options });
const ratio = (description: string, options: Options = {}) => Type.Number({ description, ...options });
const texts = (description: string, options: ListOptions = {}) =>
  Type.Array(Type.String(), { description, maxItems: MAX_CONTAINER_OPTIONS, ...options });
const counts = (description: string, options: Options = {}) =>
  Type.Array(Type.Integer(), { description, maxItems: MAX_CONTAINER_OPTIONS, ...options });
const textMap = (description: string) =>
  Type.Record(Type.String(), Type.String(), { description, maxProperties: MAX_MAP_ENTRIES });
/** A map by the names of clusters or stores. */
const places = <T extends TSchema>(schema: T, options: { description?: string } = {}) =>
  Type.Record(Type.String(), schema, { ...options, maxProperties: MAX_NAMED_PLACES });
const block = <P extends TProperties>(properties: P, description: string, options: Options = {}): TObject<P> =>
  Type.Object(properties, { description, ...options });
const maybe = <T extends TSchema>(schema: T) => Type.Optional(schema);

const StorageIOSchema = block(
  {
    storage_provider: text(
      '`<type>[.<id>]`; the types are minio, s3, onedata, webdav and rucio, the id is `default` if left out',
    ),
    path: text('`<bucket>/<folder>`; without a slash the bucket is named like the service'),
    suffix: maybe(texts('upload only files that end with one of these', { maxItems: MAX_STORAGE_PATHS })),
    prefix: maybe(texts('upload only files that begin with one of these', { maxItems: MAX_STORAGE_PATHS })),
    options: maybe(text('for a mount: further rclone options')),
  },
  'A folder in an object store from which files are read or to which they are written',
);

const ReplicaSchema = block(
  {
    type: text('`oscar`: a service on another cluster; `endpoint`: any URL that receives the event', {
      default: 'oscar',
      enum: ['oscar', 'endpoint'],
    }),
    cluster_id: text('the cluster, by its id in `clusters` or in the registry of the operator'),
    service_name: text('the name of the service there'),
    url: text('for `endpoint`: where the event is posted'),
    ssl_verify: flag('for `endpoint`: verify the certificate; true if left out', { default: true }),
    priority: count('lower comes first; 101 and above is never used'),
    headers: textMap('headers that are sent with a delegated job; the values are never shown again'),
  },
  'A member of a federation',
);

const FederationSchema = block(
  {
    group_id: text('names the federation; the service name if left out'),
    topology: text(
      '`star` (or `tree`): this cluster delegates; `mesh`: each to each; `none`: deployed, never delegating',
      {
        default: 'none',
        enum: [...TOPOLOGIES],
      },
    ),
    delegation: maybe(
      text('how the member for a job is chosen; `static` if left out', {
        enum: [...POLICY_NAMES],
      }),
    ),
    rescheduler_threshold: maybe(count('seconds a job may wait before it is offered to the members again')),
    members: maybe(
      Type.Array(ReplicaSchema, {
        description: 'the services of this federation on other clusters',
        maxItems: MAX_MEMBERS,
      }),
    ),
    weights: maybe(places(Type.Number(), { description: 'for `random`: weight per cluster id' })),
    deployment: maybe(text('`transactional` (all members or none) or `best-effort`', { enum: [...DEPLOYMENTS] })),
    delegate_when: maybe(text('`saturated` (no room here) or `always`', { enum: [...DELEGATE_WHEN] })),
    self: maybe(
      block(
        {
          priority: maybe(count('its priority among the members', { keepZero: true })),
          weight: maybe(ratio('its weight among the members', { keepZero: true })),
        },
        'this cluster as a candidate, with `delegate_when: always`',
      ),
    ),
    outputs: maybe(
      text('`replace`, or `protect`: a delegated job replaces only results of the same input', {
        enum: [...OUTPUT_RULES],
      }),
    ),
    token_sharing: maybe(text('rejected: a refresh token has one holder, the coordinator')),
  },
  'One definition on several clusters',
  { accepts: 'mode' },
);

const ClusterSchema = block(
  {
    endpoint: text('URL of the manager of that cluster'),
    auth_user: text('account there, for callers with Basic credentials'),
    auth_password: text('its password; never shown again'),
    ssl_verify: flag('verify its certificate; true if left out', { default: true }),
  },
  'A cluster that members may be on',
);

const MinioSchema = block(
  {
    endpoint: text('URL of the store'),
    verify: flag('verify its certificate; true if left out', { default: true }),
    access_key: text('never shown again'),
    secret_key: text('never shown again'),
    region: text('region'),
  },
  'A MinIO or other S3-compatible store',
);

const StorageProvidersSchema = block(
  {
    s3: maybe(
      places(
        block(
          { access_key: text('never shown again'), secret_key: text('never shown again'), region: text('region') },
          'Amazon S3',
        ),
      ),
    ),
    minio: maybe(places(MinioSchema)),
    onedata: maybe(
      places(
        block(
          { oneprovider_host: text('host, without scheme'), token: text('never shown again'), space: text('space') },
          'Onedata',
        ),
      ),
    ),
    webdav: maybe(
      places(
        block(
          {
            hostname: text('host, without scheme; https'),
            login: text('account'),
            password: text('never shown again'),
          },
          'WebDAV',
        ),
      ),
    ),
    rucio: maybe(
      places(
        block(
          {
            host: text('host'),
            account: text('account'),
            rse: text('storage element'),
            refresh_token: text('never shown again'),
            auth_host: text('authentication host'),
            oidc_audience: text('audience'),
            token_endpoint: text('token endpoint'),
          },
          'Rucio',
        ),
      ),
    ),
  },
  'Stores beside the one of the cluster, by type and id. `minio.default` is always the store of the cluster',
);

const ExposeSchema = block(
  {
    min_scale: count('fewest instances'),
    max_scale: count('most instances'),
    api_port: maybe(counts('ports of the container', { accepts: 'single' })),
    cpu_threshold: count('CPU percentage above which an instance is added'),
    rewrite_target: flag('keep the public path'),
    nodePort: maybe(counts('ports of the node', { accepts: 'single' })),
    default_command: flag('run the command of the image, not the script'),
    set_auth: flag('ask for credentials'),
    auth_type: maybe(text('`basic` or `forward`')),
    health_path: text('path of the probes'),
    probe_mode: maybe(text('`legacy` or `direct`')),
  },
  'A service that stays up and is reached over HTTP. Not supported yet',
);

const KserveSchema = block(
  {
    type: text('`inference` or `llm_inference`'),
    storage_uri: text('where the model is'),
    inference: maybe(block({ model_format: text('format'), runtime: maybe(text('runtime')) }, 'inference')),
    llm_inference: maybe(block({ runtime_image: maybe(text('image')) }, 'llm_inference')),
    api_version: maybe(text('`v1` or `v2`')),
    min_scale: maybe(count('fewest instances')),
    max_scale: maybe(count('most instances')),
    cpu: maybe(text('quantity', { accepts: 'number' })),
    memory: maybe(text('quantity', { accepts: 'number' })),
    args: maybe(texts('arguments')),
    env: maybe(textMap('environment')),
    enable_gpu: maybe(flag('one GPU')),
    set_auth: maybe(flag('ask for credentials', { keepZero: true })),
  },
  'A model server. Not supported yet',
);

const VolumeSchema = block(
  {
    name: maybe(text('name; the service name if left out')),
    size: maybe(text('quantity; without it an existing volume is attached')),
    mount_path: text('where it appears'),
    lifecycle_policy: maybe(text('`delete` or `retain`')),
  },
  'A volume that outlives jobs. Not supported yet',
);

export const DeploymentSchema = block(
  {
    state: text('pending, ready, degraded, failed, stopped or unavailable'),
    reason: maybe(text('why')),
    last_transition_time: maybe(text('when it entered this state')),
    active_instances: count('number of instances'),
    affected_instances: count('instances that are not available'),
    resource_kind: text('exposed_service, kserve_service, knative_service or unavailable'),
  },
  'The deployment of a service that stays up',
);

export const ServiceSchema = block(
  {
    name: text('name, unique in the cluster: 1 to 39 lower-case letters, digits and hyphens'),
    cluster_id: text('id of this cluster inside `clusters`'),
    memory: text('memory limit, a Kubernetes quantity', { accepts: 'number', default: '256Mi' }),
    cpu: text('CPU limit, a Kubernetes quantity', { accepts: 'number', default: '0.2' }),
    total_memory: text('YuniKorn queue maximum. Not supported yet', { accepts: 'number' }),
    total_cpu: text('YuniKorn queue maximum. Not supported yet', { accepts: 'number' }),
    ephemeral_storage_request: text('local disk request, a Kubernetes quantity', { accepts: 'number' }),
    enable_gpu: flag('one GPU'),
    enable_sgx: flag('an SGX enclave'),
    image_prefetch: flag('pull the image on every node beforehand; stored and shown, but without effect'),
    synchronous: block(
      {
        min_scale: count('pods that are kept ready for calls, on Kubernetes; 100 at most'),
        max_scale: count('calls that run concurrently, the others wait; 0 = no limit'),
      },
      'for calls of `/run`',
    ),
    federation: maybe(FederationSchema),
    log_level: text('log level of the supervisor', {
      default: 'INFO',
      enum: ['NOTSET', 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'],
    }),
    image: text('container image'),
    alpine: flag('the image is based on musl'),
    token: text('allows its holder to invoke this service; created by the manager'),
    file_stage_in: flag('do not download the input'),
    input: Type.Array(StorageIOSchema, { description: 'where input files arrive', maxItems: MAX_STORAGE_PATHS }),
    output: Type.Array(StorageIOSchema, { description: 'where results are written', maxItems: MAX_STORAGE_PATHS }),
    script: text('the script that is run'),
    image_pull_secrets: maybe(texts('names of pull secrets')),
    expose: ExposeSchema,
    environment: block(
      {
        variables: textMap('environment variables'),
        secrets: textMap(
          'environment variables whose values are kept secret; an empty value in an update keeps the old one',
        ),
      },
      'environment of the script',
    ),
    annotations: textMap('annotations, put on jobs too'),
    vo: text('virtual organisation of the owner'),
    labels: textMap('labels, put on jobs too'),
    storage_providers: maybe(StorageProvidersSchema),
    clusters: maybe(places(ClusterSchema, { description: 'other clusters, by id' })),
    owner: text('uid of the user, or `cluster_admin`; set by the manager'),
    namespace: maybe(text('the namespace of its objects; set by the manager')),
    interlink_node_name: text('run on that virtual node. Not supported yet'),
    visibility: text('who may see and invoke it', { default: 'private', enum: ['private', 'restricted', 'public'] }),
    allowed_users: texts('with `restricted`: uids of the other users who may', { maxItems: MAX_ALLOWED_USERS }),
    isolation_level: text('`USER` gives each allowed user their own bucket', { enum: ['', 'SERVICE', 'USER'] }),
    // Clients send back what they got, so it must fit whatever its length.
    bucket_list: texts('the buckets of the allowed users; set by the manager', { maxItems: MAX_FOLDERS }),
    mount: StorageIOSchema,
    volume: maybe(VolumeSchema),
    volume_status: block(
      { enabled: Type.Boolean(), name: maybe(Type.String()), phase: maybe(Type.String()), error: maybe(Type.String()) },
      'state of the volume; set by the manager',
    ),
    deployment: maybe(DeploymentSchema),
    kserve: maybe(KserveSchema),
  },
  'An OSCAR service',
);

/** A service definition on the wire. */
export type ServiceDocument = Static<typeof ServiceSchema>;
export type StorageIO = Static<typeof StorageIOSchema>;
export type Federation = Static<typeof FederationSchema>;
export type Replica = Static<typeof ReplicaSchema>;
export type DefinedCluster = Static<typeof ClusterSchema>;
export type StorageProviders = Static<typeof StorageProvidersSchema>;
export type MinioProvider = Static<typeof MinioSchema>;
export type Deployment = Static<typeof DeploymentSchema>;
