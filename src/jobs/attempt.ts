import { loadSecrets, ownerOfSecrets } from '../catalog/index.ts';
import type { Attempt, JobRecord, ObjectAt, StageOut, StoreAccess } from '../cluster/index.ts';
import type { Service } from '../service/index.ts';
import { attemptParts } from './attempt-parts.ts';
import { readEvent } from './event.ts';
import { OWN_STORE, type ReadableFile, readableFile } from './file-rights.ts';
import type { AttemptKeys, Jobs } from './jobs.ts';
import { fileAtOrigin, forgetOriginStore, originStoreOf } from './origin-store.ts';
import { outputPlaces } from './output-places.ts';
import { writableOutputs } from './output-rights.ts';
import { definedAccess, namedAccess, ownEndpoints } from './store-access.ts';

export interface PreparedAttempt {
  readonly attempt: Attempt;
  /** Ends the keys that it was given. */
  readonly release: () => Promise<void>;
}

/**
 * Keys outlive no job: they are ended with it. This is how long they work if the manager dies and does not come back; it
 * must suffice for the longest single transfer.
 */
const KEYS: AttemptKeys = { seconds: 12 * 60 * 60, inProcess: true };

/** What an attempt is made from, beyond its job. */
type Surroundings = Pick<
  Jobs,
  'secrets' | 'objects' | 'ownStore' | 'publicStore' | 'namedStores' | 'node' | 'timeout' | 'keys'
>;

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
  const [secrets, origin] = await Promise.all([
    loadSecrets(ownerOfSecrets(service), jobs),
    originStoreOf(record, jobs.secrets),
  ]);
  const wanted = definition.file_stage_in ? undefined : event.file;
  const atOrigin = origin && fileAtOrigin(wanted, record.delegatedFrom ?? '');
  const file = atOrigin ?? (wanted && (await readableFile(wanted, record, service, jobs.objects)));
  const outputs = outputPlaces(service, file?.bucket);
  const keys = new JobKeys(record, service, file, outputs, jobs);
  const attempt: Attempt = {
    ...attemptParts({ name, job: record.id, service, event, file, secrets: secrets.environment }, jobs),
    outputs,
    answer: record.trigger === 'run',
    async stores(inDoubt = []) {
      const ids = new Set([...(file ? [file.store] : []), ...outputs.map(({ store }) => store)]);
      const access = async (id: string): Promise<StoreAccess | undefined> => {
        // To a job that a manager written in Go delegated, that one's store is the default (contract §6.6).
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
    await forgetOriginStore(record, jobs.secrets);
  };
  return { attempt, release };
}

/** The keys of one attempt for the store of the cluster: this object to read, below these prefixes to write. */
class JobKeys {
  readonly #record: JobRecord;
  readonly #service: Service;
  readonly #file: ReadableFile | undefined;
  readonly #outputs: readonly StageOut[];
  readonly #jobs: Surroundings;
  readonly #issued: string[] = [];

  constructor(
    record: JobRecord,
    service: Service,
    file: ReadableFile | undefined,
    outputs: readonly StageOut[],
    jobs: Surroundings,
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
