import type { Version } from '../../../lib/version.ts';
import type { JobKey, JobRecord } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { JOB, type KubeJob, type KubeObject, type ObjectRef, type Stored } from '../client/kinds.ts';
import { isSuperseded, removeObject, replaceObject } from '../client/writes.ts';
import { jobObjectName } from '../objects/labels.ts';
import type { JobCache } from './job-cache.ts';
import { isFinalJob, type JobEntry, RECORD, readJob, toTombstone } from './job-object.ts';

export interface JobObjectsOptions {
  readonly cache: JobCache;
  /** Whether the watch that feeds the cache is open. */
  readonly isLive: () => boolean;
  readonly serviceNamed: (name: string) => Promise<Service | undefined>;
}

/** Reads and writes Jobs, through the cache where possible. */
export class JobObjects {
  readonly #api: Api;
  readonly #options: JobObjectsOptions;

  constructor(api: Api, options: JobObjectsOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** From the cache while its watch is open. Otherwise, and on a miss, from the server. */
  async current(key: JobKey): Promise<JobEntry | undefined> {
    const { cache, isLive } = this.#options;
    const known = cache.find(key);
    if (known && isLive()) return known;
    const object = await this.fetch(key);
    return object && readJob(object);
  }

  /** Reads the Job from the server. */
  async fetch(key: JobKey): Promise<Stored<KubeJob> | undefined> {
    const { cache, serviceNamed } = this.#options;
    const known = cache.find(key);
    const namespace = known?.namespace ?? (await serviceNamed(key.service))?.namespace;
    if (namespace === undefined) return undefined;
    const object = await this.#get({ namespace, name: jobObjectName(key) });
    if (!object && known) cache.drop(known);
    if (!object || object.metadata.labels?.[RECORD] === undefined) return undefined;
    const entry = readJob(object);
    cache.put(object, entry);
    return isOf(entry, key) ? object : undefined;
  }

  /** The complete object of an entry, in this or a newer version. */
  async fullObject({ uid, resourceVersion, namespace, name }: JobEntry): Promise<Stored<KubeJob> | undefined> {
    const { cache } = this.#options;
    const recent = cache.recentRecords.get(uid);
    if (recent?.metadata.resourceVersion === resourceVersion) return recent;
    const object = await this.#get({ namespace, name });
    if (object?.metadata.uid !== uid) {
      cache.drop({ uid });
      return undefined;
    }
    cache.put(object);
    return object;
  }

  /** The Job whose record has this version. `fresh`: do not trust the cache. */
  async atVersion(key: JobKey, expected: Version, fresh: boolean): Promise<Stored<KubeJob>> {
    const { cache } = this.#options;
    const known = cache.find(key);
    const recent =
      known?.record && known.version === expected && !fresh ? cache.recentRecords.get(known.uid) : undefined;
    if (known && recent?.metadata.resourceVersion === known.resourceVersion) return recent;
    const object = await this.fetch(key);
    const entry = object && readJob(object);
    if (!object || !entry?.record) throw absentJob(key);
    if (entry.version !== expected) throw changed(key);
    return object;
  }

  /** The existing job with this key, after a create failed because of it. Undefined when it is gone by now. */
  async existing(key: JobKey, { metadata }: KubeObject): Promise<JobEntry | undefined> {
    const { namespace, name } = metadata;
    const object = await this.#get({ namespace, name });
    if (!object) return undefined;
    const entry = object.metadata.labels?.[RECORD] === undefined ? undefined : this.remember(object);
    if (entry && isOf(entry, key)) return entry;
    const whose = entry ? `belongs to the service "${entry.service}"` : 'does not belong to this manager';
    const message = `the Job "${name}" in namespace ${namespace} ${whose}: use another id than "${key.id}" for the job`;
    throw new StoreError('conflict', message);
  }

  /** Puts the object into the cache. Returns the entry of exactly this object, even if the cache has a newer one. */
  remember(object: Stored<KubeJob>): JobEntry {
    const entry = readJob(object);
    this.#options.cache.put(object, entry);
    return entry;
  }

  /** The same for a written object. If another writer has changed it since, the entry is of what was sent. */
  rememberWritten(object: Stored<KubeJob>, sent: Stored<KubeJob>): JobEntry {
    return isSuperseded(object) ? readJob(sent) : this.remember(object);
  }

  /** Removes a finished job, leaving a tombstone if it needs one. Undefined when it does not exist or was just removed. */
  async removeFinished(key: JobKey): Promise<JobEntry | undefined> {
    for (let fresh = false; ; fresh = true) {
      const object = fresh ? await this.fetch(key) : undefined;
      const entry = object ? readJob(object) : fresh ? undefined : await this.current(key);
      if (!entry?.record) return undefined;
      if (isFinalJob(entry.record.state)) {
        const outcome = leavesTombstone(entry.record)
          ? await this.#bury(entry)
          : await removeObject(this.#api, JOB, asObject(entry));
        if (outcome === 'removed') this.#options.cache.drop(entry);
        if (outcome === 'absent') this.#options.cache.drop(entry);
        if (outcome !== 'conflict') return outcome === 'absent' ? undefined : entry;
      } else if (fresh) {
        throw new StoreError('conflict', `the job "${key.id}" has not finished: cancel it first`);
      }
    }
  }

  /** Removes the Job in any state. False when it was just removed by another manager. */
  async delete(entry: JobEntry): Promise<boolean> {
    const outcome = await removeObject(this.#api, JOB, asObject(entry), { anyVersion: true });
    this.#options.cache.drop(entry);
    return outcome === 'removed';
  }

  async #bury(entry: JobEntry): Promise<'buried' | 'conflict' | 'absent'> {
    const object = await this.fullObject(entry);
    if (!object) return 'absent';
    if (readJob(object).version !== entry.version) return 'conflict';
    const tombstone = toTombstone(object);
    const written = await replaceObject(this.#api, JOB, tombstone, object);
    if (typeof written === 'string') return written;
    this.rememberWritten(written, tombstone);
    return 'buried';
  }

  async #get(place: ObjectRef): Promise<Stored<KubeJob> | undefined> {
    try {
      return await this.#api.get<KubeJob>(JOB, place);
    } catch (error) {
      throw toStoreError(error, `read Job ${place.name} in namespace ${place.namespace}`);
    }
  }
}

/** Jobs that a file caused leave a tombstone: neither a repeated event nor the sweep of the bucket may run them again. */
export const leavesTombstone = ({ trigger, object }: Pick<JobRecord, 'trigger' | 'object'>) =>
  trigger === 'storage' || object !== undefined;

export const absentJob = ({ id, service }: JobKey) =>
  new StoreError('absent', `there is no job "${id}" of "${service}"`);

const changed = ({ id }: JobKey) => new StoreError('conflict', `the job "${id}" was changed meanwhile: read it again`);

const isOf = (entry: JobEntry, { service, id }: JobKey) => entry.service === service && entry.id === id;

const asObject = ({ namespace, name, uid, resourceVersion }: JobEntry): Stored<KubeObject> => ({
  metadata: { namespace, name, uid, resourceVersion },
});
