import type { Version } from '../../../lib/version.ts';
import type { JobKey, JobRecord } from '../../../model/job/index.ts';
import type { Service } from '../../../model/service/index.ts';
import { StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { JOB, type KubeJob, type KubeObject, type ObjectPlace, type Stored } from '../client/kinds.ts';
import { isSuperseded, removeObject, replaceObject } from '../client/writes.ts';
import { jobObjectName } from '../objects/labels.ts';
import type { JobCache } from './job-cache.ts';
import { asMark, isFinalJob, type JobEntry, RECORD, readJob } from './job-object.ts';

export interface JobObjectsOptions {
  readonly cache: JobCache;
  /** Is the cache being told what changes? */
  readonly isLive: () => boolean;
  readonly serviceNamed: (name: string) => Promise<Service | undefined>;
}

/** The Jobs at the server, and what of them is known here. */
export class JobObjects {
  readonly #api: Api;
  readonly #options: JobObjectsOptions;

  constructor(api: Api, options: JobObjectsOptions) {
    this.#api = api;
    this.#options = options;
  }

  /** From the cache while that is kept up; otherwise, and before a miss counts as one, from the server. */
  async current(key: JobKey): Promise<JobEntry | undefined> {
    const { cache, isLive } = this.#options;
    const known = cache.find(key);
    if (known && isLive()) return known;
    const object = await this.look(key);
    return object && readJob(object);
  }

  /** What the server has. */
  async look(key: JobKey): Promise<Stored<KubeJob> | undefined> {
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

  /** The whole of an entry, or of what has become of it. */
  async whole({ uid, resourceVersion, namespace, name }: JobEntry): Promise<Stored<KubeJob> | undefined> {
    const { cache } = this.#options;
    const atHand = cache.atHand.get(uid);
    if (atHand?.metadata.resourceVersion === resourceVersion) return atHand;
    const object = await this.#get({ namespace, name });
    if (object?.metadata.uid !== uid) {
      cache.drop({ uid });
      return undefined;
    }
    cache.put(object);
    return object;
  }

  /** The object of a record that is in this version; `fresh`: whatever is known here may be old. */
  async inVersion(key: JobKey, expected: Version, fresh: boolean): Promise<Stored<KubeJob>> {
    const { cache } = this.#options;
    const known = cache.find(key);
    const atHand = known?.record && known.version === expected && !fresh ? cache.atHand.get(known.uid) : undefined;
    if (known && atHand?.metadata.resourceVersion === known.resourceVersion) return atHand;
    const object = await this.look(key);
    const entry = object && readJob(object);
    if (!object || !entry?.record) throw absent(key);
    if (entry.version !== expected) throw changed(key);
    return object;
  }

  /** The job of that key which kept another from being made. Undefined when it is gone by now. */
  async existing(key: JobKey, { metadata }: KubeObject): Promise<JobEntry | undefined> {
    const { namespace, name } = metadata;
    const object = await this.#get({ namespace, name });
    if (!object) return undefined;
    const entry = object.metadata.labels?.[RECORD] === undefined ? undefined : this.keep(object);
    if (entry && isOf(entry, key)) return entry;
    const whose = entry ? `of the service "${entry.service}"` : 'that is not of this manager';
    const message = `there is a Job "${name}" in namespace ${namespace} ${whose}: the job "${key.id}" needs another id`;
    throw new StoreError('conflict', message);
  }

  /** What is known from here on. Gives the entry of this very object, though there may be a newer one. */
  keep(object: Stored<KubeJob>): JobEntry {
    const entry = readJob(object);
    this.#options.cache.put(object, entry);
    return entry;
  }

  /** The same of what was written. Of what somebody has changed since, only what was sent is still known. */
  written(object: Stored<KubeJob>, sent: Stored<KubeJob>): JobEntry {
    return isSuperseded(object) ? readJob(sent) : this.keep(object);
  }

  /** Takes a finished job out of sight. Undefined when there is none, or somebody else just did. */
  async takeAway(key: JobKey): Promise<JobEntry | undefined> {
    for (let fresh = false; ; fresh = true) {
      const object = fresh ? await this.look(key) : undefined;
      const entry = object ? readJob(object) : fresh ? undefined : await this.current(key);
      if (!entry?.record) return undefined;
      if (isFinalJob(entry.record.state)) {
        const outcome = leavesMark(entry.record)
          ? await this.#hide(entry)
          : await removeObject(this.#api, JOB, asObject(entry));
        if (outcome === 'removed') this.#options.cache.drop(entry);
        if (outcome === 'absent') this.#options.cache.drop(entry);
        if (outcome !== 'conflict') return outcome === 'absent' ? undefined : entry;
      } else if (fresh) {
        throw new StoreError('conflict', `the job "${key.id}" has not ended: cancel it first`);
      }
    }
  }

  /** Removes it in whatever state. False when somebody else just did. */
  async delete(entry: JobEntry): Promise<boolean> {
    const outcome = await removeObject(this.#api, JOB, asObject(entry), { anyVersion: true });
    this.#options.cache.drop(entry);
    return outcome === 'removed';
  }

  async #hide(entry: JobEntry): Promise<'hidden' | 'conflict' | 'absent'> {
    const object = await this.whole(entry);
    if (!object) return 'absent';
    if (readJob(object).version !== entry.version) return 'conflict';
    const mark = asMark(object);
    const written = await replaceObject(this.#api, JOB, mark, object);
    if (typeof written === 'string') return written;
    this.written(written, mark);
    return 'hidden';
  }

  async #get(place: ObjectPlace): Promise<Stored<KubeJob> | undefined> {
    try {
      return await this.#api.get<KubeJob>(JOB, place);
    } catch (error) {
      throw toStoreError(error, `read Job ${place.name} in namespace ${place.namespace}`);
    }
  }
}

/** One that an object caused, however its event came: neither the event again nor a sweep may run it again. */
export const leavesMark = ({ trigger, object }: Pick<JobRecord, 'trigger' | 'object'>) =>
  trigger === 'storage' || object !== undefined;

export const absent = ({ id, service }: JobKey) => new StoreError('absent', `there is no job "${id}" of "${service}"`);

const changed = ({ id }: JobKey) =>
  new StoreError('conflict', `the job "${id}" was changed by someone else meanwhile: read it again`);

const isOf = (entry: JobEntry, { service, id }: JobKey) => entry.service === service && entry.id === id;

const asObject = ({ namespace, name, uid, resourceVersion }: JobEntry): Stored<KubeObject> => ({
  metadata: { namespace, name, uid, resourceVersion },
});
