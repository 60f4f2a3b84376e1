import { posix } from 'node:path';
import type { Secret } from '../../lib/secret.ts';
import type {
  Attempt,
  JobKey,
  JobRecord,
  ObjectAt,
  PodTraits,
  StageIn,
  StageOut,
  StoreAccess,
} from '../../model/job/index.ts';
import {
  bytes,
  inputFolders,
  isClusterStore,
  parseProvider,
  type Service,
  serviceAnnotations,
  serviceLabels,
  splitPath,
} from '../../model/service/index.ts';
import { loadSecrets, toSecretsOwner } from '../../services/index.ts';
import { type JobEvent, readEvent } from '../event.ts';
import { type AttemptKeys, type Jobs, type PreparedAttempt, serviceDemand, serviceTimeout } from '../jobs.ts';
import { inputLabel } from './input-label.ts';
import {
  definedAccess,
  fileAtOrigin,
  loadOriginStore,
  namedAccess,
  OWN_STORE,
  ownEndpoints,
  type ReadableFile,
  readableFile,
  removeOriginStore,
  writableOutputs,
} from './store-access.ts';

/**
 * Keys are revoked when the job ends. This lifetime matters only if the manager dies and does not come back; it must be long
 * enough for the longest single transfer.
 */
const KEYS: AttemptKeys = { seconds: 12 * 60 * 60, inProcess: true };

/** What preparing an attempt needs. */
type PrepareDeps = Pick<
  Jobs,
  'secrets' | 'objects' | 'ownStore' | 'publicStore' | 'namedStores' | 'node' | 'timeout' | 'keys'
>;

/** Prepares an attempt from the current state of its job and its service. */
export async function prepareAttempt(
  name: string,
  record: JobRecord,
  service: Service,
  eventBytes: Uint8Array,
  jobs: PrepareDeps,
): Promise<PreparedAttempt> {
  const event = readEvent(eventBytes);
  const { definition } = service;
  const [secrets, origin] = await Promise.all([
    loadSecrets(toSecretsOwner(service), jobs),
    loadOriginStore(record, jobs.secrets),
  ]);
  const wanted = definition.file_stage_in ? undefined : event.file;
  const atOrigin = origin && fileAtOrigin(wanted, record.delegatedFrom ?? '');
  const file = atOrigin ?? (wanted && (await readableFile(wanted, record, service, jobs.objects)));
  const outputs = resolveOutputs(service, file?.bucket);
  const label = await inputLabel(record, service, eventBytes, jobs.objects);
  const keys = new JobKeys(record, service, file, outputs, jobs);
  const attempt: Attempt = {
    ...attemptParts({ name, job: record.id, service, event, file, secrets: secrets.environment }, jobs),
    outputs,
    ...(label !== undefined && { inputLabel: label }),
    answer: record.trigger === 'run',
    async stores(inDoubt = []) {
      const ids = new Set([...(file ? [file.store] : []), ...outputs.map(({ store }) => store)]);
      const access = async (id: string): Promise<StoreAccess | undefined> => {
        // For a job that a Go manager delegated, the default store is the store of that manager (decision 0036).
        if (id === OWN_STORE) return origin ?? keys.issue(inDoubt);
        const named = jobs.namedStores.get(id);
        if (named) return namedAccess(named);
        return definedAccess(id, service, secrets.credentials, ownEndpoints(jobs));
      };
      const found = await Promise.all([...ids].map(async (id) => [id, await access(id)] as const));
      return new Map(found.filter((entry): entry is readonly [string, StoreAccess] => entry[1] !== undefined));
    },
  };
  const release = async () => {
    await keys.revoke();
    await removeOriginStore(record, jobs.secrets);
  };
  return { attempt, release };
}

/** The keys of one attempt for the store of the cluster: they can read its input and write below its outputs. */
class JobKeys {
  readonly #record: JobRecord;
  readonly #service: Service;
  readonly #file: ReadableFile | undefined;
  readonly #outputs: readonly StageOut[];
  readonly #jobs: PrepareDeps;
  readonly #issued: string[] = [];

  constructor(
    record: JobRecord,
    service: Service,
    file: ReadableFile | undefined,
    outputs: readonly StageOut[],
    jobs: PrepareDeps,
  ) {
    this.#record = record;
    this.#service = service;
    this.#file = file;
    this.#outputs = outputs;
    this.#jobs = jobs;
  }

  async issue(inDoubt: readonly ObjectAt[]): Promise<StoreAccess> {
    const { objects, ownStore } = this.#jobs;
    const read = [...(this.#file ? [this.#file] : []), ...inDoubt].filter(({ store }) => store === OWN_STORE);
    const write = await writableOutputs(this.#outputs, this.#service, this.#record, this.#jobs);
    const scope = {
      read: read.map(({ bucket, key }) => ({ bucket, key })),
      write: write.map(({ bucket, folder }) => ({ bucket, prefix: folder === '' ? '' : `${folder}/` })),
    };
    const { seconds, inProcess } = this.#jobs.keys ?? KEYS;
    const keys = await objects.issue(scope, seconds, this.#record.principal, { inProcess });
    this.#issued.push(keys.id);
    const { accessKey, secretKey, sessionToken } = keys;
    const expiresAt = keys.expiresAt.getTime();
    return { type: 's3', ...ownStore, accessKey, secretKey, sessionToken, expiresAt, guarded: false };
  }

  async revoke(): Promise<void> {
    await Promise.all(this.#issued.splice(0).map((id) => this.#jobs.objects.revoke(id)));
  }
}

/** What every attempt is built from, wherever its files are. */
interface AttemptBasis {
  readonly name: string;
  /** The id that users know the job by. */
  readonly job: string;
  /** What its record is called here, if that is something else. */
  readonly record?: JobKey;
  readonly service: Service;
  readonly event: JobEvent;
  /** The input file, if the job may read it. */
  readonly file: ObjectAt | undefined;
  /** Values of `environment.secrets`. */
  readonly secrets: Readonly<Record<string, Secret>>;
}

/** The part of an attempt that does not depend on where its files are. */
type AttemptParts = Pick<
  Attempt,
  'name' | 'image' | 'script' | 'environment' | 'demand' | 'timeout' | 'input' | 'traits'
>;

/**
 * The largest event that is also passed in the environment. Linux limits one string to 128 KiB, and all strings share their
 * space with the arguments; larger events are in the input file only (R23).
 */
export const MAX_EVENT_VARIABLE = 64 * 1024;

export function attemptParts(basis: AttemptBasis, jobs: Pick<Jobs, 'node' | 'timeout'>): AttemptParts {
  const { definition } = basis.service;
  return {
    name: basis.name,
    image: definition.image,
    script: definition.script,
    environment: buildEnvironment(basis, jobs.node),
    demand: serviceDemand(definition),
    timeout: serviceTimeout(definition, jobs.timeout),
    input: definition.file_stage_in ? { kind: 'none' } : stageInFor(basis),
    traits: podTraits(basis),
  };
}

function podTraits({ job, record, service }: AttemptBasis): PodTraits {
  return { ...serviceTraits(service), job: record ?? { service: service.definition.name, id: job } };
}

/** The pod traits that all attempts of a service share. */
export function serviceTraits(service: Service): Omit<PodTraits, 'job'> {
  const { image_pull_secrets = [], enable_sgx, ephemeral_storage_request } = service.definition;
  const localDisk = bytes(ephemeral_storage_request);
  return {
    namespace: service.namespace,
    labels: serviceLabels(service),
    annotations: serviceAnnotations(service),
    imagePullSecrets: image_pull_secrets,
    sgx: enable_sgx,
    ...(localDisk !== undefined && { localDisk }),
  };
}

function stageInFor({ job, event, file }: AttemptBasis): StageIn {
  if (file) return { kind: 'object', name: fileName(file.key), from: file };
  return { kind: 'bytes', name: `event-file-${job}`, bytes: event.input };
}

/** The last part of a key if it is a legal file name, otherwise `input`. */
function fileName(key: string): string {
  const name = posix.basename(key);
  if (name === '' || name === '.' || name === '..') return 'input';
  if (Buffer.byteLength(name) <= 255) return name;
  const extension = posix.extname(name);
  return `input${Buffer.byteLength(extension) <= 32 ? extension : ''}`;
}

/**
 * The environment of the script (docs/jobs.md#what-the-script-sees). The variables of the manager come last, so that no
 * definition can override them.
 */
function buildEnvironment(
  { job, service, event, file, secrets }: AttemptBasis,
  node: string,
): Record<string, string | Secret> {
  const text = toVariable(event.event);
  const time = event.file && event.file.type !== 'dcache' ? event.file.time : '';
  return {
    ...service.definition.environment.variables,
    ...secrets,
    ...event.variables,
    OSCAR_SERVICE_NAME: service.definition.name,
    OSCAR_SERVICE_TOKEN: service.token,
    OSCAR_SERVICE_BASE_PATH: '',
    JOB_UUID: job,
    RESOURCE_ID: node,
    ...(text !== undefined && { EVENT: text }),
    ...(file && { STORAGE_OBJECT_KEY: file.key, ...(time !== '' && { EVENT_TIME: time }) }),
  };
}

/** The event as text; undefined if it is too large or not UTF-8 without NUL. */
function toVariable(event: Uint8Array): string | undefined {
  if (event.length > MAX_EVENT_VARIABLE || event.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(event);
  } catch {
    return undefined;
  }
}

/**
 * Where the results of a job go (docs/go-manager.md#events-and-scripts). With isolation USER the results of an allowed
 * user's file go to the bucket that the file came from.
 */
export function resolveOutputs(service: Service, eventBucket: string | undefined): StageOut[] {
  const isolated = inputFolders(service).some(({ bucket, user }) => user !== undefined && bucket === eventBucket);
  return service.definition.output.map(({ storage_provider, path, prefix = [], suffix = [] }) => {
    const provider = parseProvider(storage_provider);
    const store = isClusterStore(provider) ? OWN_STORE : `${provider.type}.${provider.id}`;
    if (provider.type === 'webdav') return { store, bucket: '', folder: path, prefix, suffix };
    const { bucket, folder } = splitPath(path);
    return {
      store,
      bucket: isolated && store === OWN_STORE ? (eventBucket ?? bucket) : bucket,
      folder,
      prefix,
      suffix,
    };
  });
}
