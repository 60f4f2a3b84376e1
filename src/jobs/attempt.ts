import { posix } from 'node:path';
import type { Secret } from '../base/secret.ts';
import { loadSecrets, ownerOfSecrets } from '../catalog/index.ts';
import type { Attempt, JobRecord, ObjectAt, StageIn, StageOut, StoreAccess } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { demandOf, timeoutOf } from './demand.ts';
import { type JobEvent, readEvent } from './event.ts';
import { OWN_STORE, type ReadableFile, readableFile } from './file-rights.ts';
import type { Jobs } from './jobs.ts';
import { outputPlaces } from './output-places.ts';
import { definedAccess, namedAccess } from './store-access.ts';

export interface PreparedAttempt {
  readonly attempt: Attempt;
  /** Ends the keys that it was given. */
  readonly release: () => Promise<void>;
}

/**
 * The largest event that is in the environment too. A string there can have 128 KiB on Linux, and they share one space
 * with the arguments; larger events are in the input file only (R23).
 */
export const LARGEST_EVENT_VARIABLE = 64 * 1024;

/**
 * Keys outlive no job: they are ended with it. This is how long they work if the manager dies and does not come back; it
 * must suffice for the longest single transfer.
 */
const KEY_SECONDS = 12 * 60 * 60;

/** What an attempt is made from, beyond its job. */
type Surroundings = Pick<Jobs, 'secrets' | 'objects' | 'ownStore' | 'namedStores' | 'node' | 'timeout'>;

/** Everything that is needed to run a job of this service, by what they say at this moment. */
export async function prepareAttempt(
  name: string,
  record: JobRecord,
  service: Service,
  eventBytes: Uint8Array,
  jobs: Surroundings,
): Promise<PreparedAttempt> {
  const event = readEvent(eventBytes);
  const { definition } = service;
  const [secrets, file] = await Promise.all([
    loadSecrets(ownerOfSecrets(service), jobs),
    event.file && !definition.file_stage_in ? readableFile(event.file, record, service, jobs.objects) : undefined,
  ]);
  const outputs = outputPlaces(service, file?.bucket);
  const keys = new JobKeys(record, file, outputs, jobs);
  const attempt: Attempt = {
    name,
    image: definition.image,
    script: definition.script,
    environment: environmentOf(record, service, event, file, secrets.environment, jobs.node),
    demand: demandOf(definition),
    timeout: timeoutOf(definition, jobs.timeout),
    input: definition.file_stage_in ? { kind: 'none' } : inputOf(record.id, event, file),
    outputs,
    answer: record.trigger === 'run',
    async stores(inDoubt = []) {
      const ids = new Set([...(file ? [file.store] : []), ...outputs.map(({ store }) => store)]);
      const access = async (id: string): Promise<StoreAccess | undefined> => {
        if (id === OWN_STORE) return keys.issue(inDoubt);
        const named = jobs.namedStores.get(id);
        if (named) return namedAccess(named);
        return definedAccess(id, service, secrets.credentials, jobs.ownStore.endpoint);
      };
      const found = await Promise.all([...ids].map(async (id) => [id, await access(id)] as const));
      return new Map(found.filter((entry): entry is readonly [string, StoreAccess] => entry[1] !== undefined));
    },
  };
  return { attempt, release: () => keys.revoke() };
}

/** The keys of one attempt for the store of the cluster: this object to read, below these prefixes to write. */
class JobKeys {
  readonly #record: JobRecord;
  readonly #file: ReadableFile | undefined;
  readonly #outputs: readonly StageOut[];
  readonly #jobs: Surroundings;
  readonly #issued: string[] = [];

  constructor(record: JobRecord, file: ReadableFile | undefined, outputs: readonly StageOut[], jobs: Surroundings) {
    this.#record = record;
    this.#file = file;
    this.#outputs = outputs;
    this.#jobs = jobs;
  }

  async issue(inDoubt: readonly ObjectAt[]): Promise<StoreAccess> {
    const { objects, ownStore } = this.#jobs;
    const read = [...(this.#file ? [this.#file] : []), ...inDoubt].filter(({ store }) => store === OWN_STORE);
    const write = this.#outputs.filter(({ store }) => store === OWN_STORE);
    const scope = {
      read: read.map(({ bucket, key }) => ({ bucket, key })),
      write: write.map(({ bucket, folder }) => ({ bucket, prefix: folder === '' ? '' : `${folder}/` })),
    };
    const keys = await objects.issue(scope, KEY_SECONDS, this.#record.principal, { inProcess: true });
    this.#issued.push(keys.id);
    const { accessKey, secretKey, sessionToken } = keys;
    return { type: 's3', ...ownStore, accessKey, secretKey, sessionToken, guarded: false };
  }

  async revoke(): Promise<void> {
    await Promise.all(this.#issued.splice(0).map((id) => this.#jobs.objects.revoke(id)));
  }
}

function inputOf(id: string, event: JobEvent, file: ReadableFile | undefined): StageIn {
  if (file) return { kind: 'object', name: fileName(file.key), from: file };
  return { kind: 'bytes', name: `event-file-${id}`, bytes: event.input };
}

/** The last part of a key, as far as a file can be called that. */
function fileName(key: string): string {
  const name = posix.basename(key);
  if (name === '' || name === '.' || name === '..') return 'input';
  if (Buffer.byteLength(name) <= 255) return name;
  const extension = posix.extname(name);
  return `input${Buffer.byteLength(extension) <= 32 ? extension : ''}`;
}

/** What the script sees (contract §8.2). What the manager says comes last, so that no definition can say otherwise. */
function environmentOf(
  record: JobRecord,
  service: Service,
  event: JobEvent,
  file: ReadableFile | undefined,
  secrets: Readonly<Record<string, Secret>>,
  node: string,
): Record<string, string | Secret> {
  const text = variableOf(event.event);
  const time = event.file && event.file.type !== 'dcache' ? event.file.time : '';
  return {
    ...service.definition.environment.variables,
    ...secrets,
    ...event.variables,
    OSCAR_SERVICE_NAME: service.definition.name,
    OSCAR_SERVICE_TOKEN: service.token,
    OSCAR_SERVICE_BASE_PATH: '',
    JOB_UUID: record.id,
    RESOURCE_ID: node,
    ...(text !== undefined && { EVENT: text }),
    ...(file && { STORAGE_OBJECT_KEY: file.key, ...(time !== '' && { EVENT_TIME: time }) }),
  };
}

/** Text without NUL, and not too much of it. */
function variableOf(bytes: Uint8Array): string | undefined {
  if (bytes.length > LARGEST_EVENT_VARIABLE || bytes.includes(0)) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
