import { SharedRun } from '../../../lib/concurrency.ts';
import type { Page, Version } from '../../../lib/version.ts';
import type { ClusterStore, Service } from '../../../model/service/index.ts';
import {
  cursorAfter,
  cursorPosition,
  type Reservation,
  type SecretValues,
  type ServiceChange,
  type ServiceQuery,
  type ServiceRecord,
  type ServiceStore,
  StoreError,
  Watchers,
} from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { Informer, type InformerOptions } from '../client/informer.ts';
import { CONFIG_MAP, type ConfigMap, type KubeObject, type Stored } from '../client/kinds.ts';
import { createObject, isSuperseded, removeObject, replaceObject } from '../client/writes.ts';
import type { Namespaces } from '../namespaces/namespaces.ts';
import type { PullSecrets } from '../namespaces/pull-secrets.ts';
import { FEDERATION, isObjectName, SERVICE, SERVICE_UID_ANNOTATION } from '../objects/labels.ts';
import type { Companions } from './companions.ts';
import { fromConfigMap, isDefinition, toConfigMap } from './definition.ts';
import type { Reservations } from './reservations.ts';
import { ServiceCache, type ServiceEntry } from './service-cache.ts';
import { createMarker, findUnmarked, removeServiceObjects } from './service-objects.ts';

/** Default number of records in a page. */
const PAGE = 500;

export interface KubernetesServiceStoreOptions {
  readonly namespaces: Namespaces;
  readonly reservations: Reservations;
  readonly pullSecrets: Pick<PullSecrets, 'syncAll'>;
  /** The cluster's own object store, which every definition names. */
  readonly objectStore: ClusterStore;
  /** Adopts the secrets of a service of a Go manager before its definition is rewritten or removed. */
  readonly adoptSecrets: (service: Service) => Promise<void>;
  /** Manages the other objects of a service. */
  readonly companions?: Companions | undefined;
  readonly watch: Omit<InformerOptions, 'labelSelector'>;
  /** Called with problems of background work, which is retried, and with definitions that cannot be read. */
  readonly report: (problem: unknown) => void;
}

/** Stores services as ConfigMaps in the namespaces of their owners (docs/operation.md#what-is-where). */
export class KubernetesServiceStore implements ServiceStore {
  readonly #api: Api;
  readonly #options: KubernetesServiceStoreOptions;
  readonly #watchers = new Watchers();
  readonly #cache: ServiceCache;
  readonly #relist = new SharedRun(() => this.#listFresh());
  readonly #informer: Informer<ConfigMap>;
  #trouble: string | undefined;

  constructor(api: Api, options: KubernetesServiceStoreOptions) {
    this.#api = api;
    this.#options = options;
    this.#cache = new ServiceCache(
      (change) => this.#watchers.notify(change),
      (problem) => {
        const known = toStoreError(problem, 'watch the services');
        this.#trouble = known instanceof Error ? known.message : String(known);
        options.report(known);
      },
    );
    this.#informer = new Informer(api, CONFIG_MAP, this.#cache, { labelSelector: SERVICE, ...options.watch });
  }

  /** Resolves when all services are known. */
  async open(): Promise<void> {
    await this.#informer.start();
  }

  /** Ends every watch. */
  async close(): Promise<void> {
    this.#watchers.end();
    await this.#informer.stop();
  }

  /** The last problem of the watch. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** The names of the secrets that the service `<namespace>/<service>` declares. */
  declaredSecrets(place: string): string[] | undefined {
    const record = this.#cache.at(place)?.record;
    if (!record || record instanceof StoreError) return undefined;
    return Object.keys(record.service.definition.environment.secrets);
  }

  /** Credentials that a Go manager stored in clear text in the definition of a service. */
  credentialsFor(uid: string): SecretValues | undefined {
    return this.#cache.credentials(uid);
  }

  /** Whether the watch of the services is open. */
  get live(): boolean {
    return this.#informer.live;
  }

  /** How often all services were listed: once, and after every watch that could not be resumed. */
  get lists(): number {
    return this.#informer.lists;
  }

  async claimNamespace(owner: string, wanted: string): Promise<string> {
    return this.#options.namespaces.ensureNamespace(owner, wanted);
  }

  async reserve(name: string, uid: string): Promise<Reservation | 'taken'> {
    const { reservations } = this.#options;
    const reservation = Object.freeze({ name, uid });
    if (this.#cache.find(name) && (await this.#current(name))) return 'taken';
    const hold = await reservations.take(reservation);
    if (hold === 'taken') return 'taken';
    // Check after the reservation: only a Go manager can create a service of this name from now on.
    const found = await this.#fetch(name).catch(async (error) => {
      await reservations.end(hold);
      throw error;
    });
    if (!found) return reservation;
    await reservations.end(hold);
    return 'taken';
  }

  async release(reservation: Reservation): Promise<void> {
    await this.#options.reservations.release(reservation);
  }

  async create(reservation: Reservation, service: Service): Promise<ServiceRecord> {
    const { name } = service.definition;
    const { reservations, objectStore } = this.#options;
    toConfigMap(service, objectStore);
    if (reservation.name !== name || reservation.uid !== service.uid) throw lost(name);
    const namespace = await this.claimNamespace(service.owner, service.namespace);
    const hold = await reservations.use(reservation);
    if (!hold) throw lost(name);

    const made = await this.#create({ ...service, namespace });
    if (!(await reservations.end(hold))) {
      await this.#undo(made);
      throw lost(name);
    }
    return recordOf(this.#cache.put(made), made);
  }

  async replace(service: Service, expected: Version): Promise<ServiceRecord> {
    const { name } = service.definition;
    const { object, record } = await this.#inVersion(name, expected);
    const before = record.service;
    if (before.uid !== service.uid || before.namespace !== service.namespace) throw changed(name);

    const next = toConfigMap(service, this.#options.objectStore);
    await this.#options.companions?.checkUpdate(service, before, object);
    await this.#adoptSecrets(object, before);
    const written = await replaceObject(this.#api, CONFIG_MAP, carriedOn(next, object), object);
    if (written === 'absent') this.#cache.drop(object);
    if (written === 'absent') throw absent(name);
    if (written === 'conflict') throw await this.#overtaken(name);
    // Already superseded: the cache has a newer version, or will have it.
    if (isSuperseded(written)) return fromConfigMap(written);
    // The change is stored. A companion that fails now is corrected by the next reconcileCompanions.
    await this.#options.companions?.ensure(service, written).catch(this.#options.report);
    return recordOf(this.#cache.put(written), written);
  }

  /** Creates and corrects the companions of all services, also of those that another manager wrote with other settings. */
  async reconcileCompanions(signal: AbortSignal): Promise<void> {
    const { companions, pullSecrets, report } = this.#options;
    const all = this.#cache.list(undefined, '', Number.MAX_SAFE_INTEGER).flatMap(([place, { service }]) => {
      const object = this.#cache.at(place)?.object;
      return object ? { service, object } : [];
    });
    const namespaces = new Set(all.map(({ service }) => service.namespace));
    await pullSecrets.syncAll(namespaces, signal).catch(report);
    const withoutMarker = await findUnmarked(all, this.#api).catch((problem: unknown) => {
      report(toStoreError(problem, 'list the PodTemplates of services'));
      return [];
    });
    for (const { service, object } of withoutMarker) {
      if (signal.aborted) return;
      await createMarker(service, object, this.#api).catch(report);
    }
    for (const { service, object } of all) {
      if (signal.aborted || !companions) return;
      if (!companions.isCurrent(service, object)) await companions.ensure(service, object).catch(report);
    }
  }

  async remove(name: string, expected: Version): Promise<void> {
    const { object, record } = await this.#inVersion(name, expected);
    await this.#adoptSecrets(object, record.service);
    const outcome = await removeObject(this.#api, CONFIG_MAP, object);
    if (outcome === 'conflict') throw await this.#overtaken(name);
    this.#cache.drop(object);
    if (outcome === 'absent') throw absent(name);
    await removeServiceObjects(object, this.#api, this.#options.report);
    await this.#options.companions?.remove(object).catch(this.#options.report);
  }

  async get(name: string): Promise<ServiceRecord | undefined> {
    return readable(await this.#current(name));
  }

  async getFresh(name: string): Promise<ServiceRecord | undefined> {
    return readable(await this.#fetch(name));
  }

  async list({ anyOf, cursor, limit = PAGE, fresh = false }: ServiceQuery): Promise<Page<ServiceRecord>> {
    if (fresh) await this.#relist.run();
    const wanted = Math.max(1, limit);
    const found = this.#cache.list(anyOf, cursorPosition(cursor), wanted + 1);
    const shown = found.slice(0, wanted);
    const items = shown.map(([, record]) => record);
    const last = shown.at(-1);
    return found.length > wanted && last ? { items, next: cursorAfter(last[0]) } : { items };
  }

  watch(signal: AbortSignal): AsyncIterable<ServiceChange> {
    return this.#watchers.watch(signal);
  }

  /** From the cache while its watch is open. Otherwise, and on a miss, from the server. */
  async #current(name: string): Promise<ServiceEntry | undefined> {
    const known = this.#cache.find(name);
    return known && this.#informer.live ? known : this.#fetch(name);
  }

  /** Reads the service from the server, in any namespace. */
  async #fetch(name: string): Promise<ServiceEntry | undefined> {
    if (!isObjectName(name)) return undefined;
    const known = this.#cache.find(name);
    const labelSelector = `${SERVICE}=${name}`;
    try {
      const { items } = await this.#api.list<ConfigMap>(CONFIG_MAP, {}, { labelSelector });
      const there = new Set(items.map(({ metadata }) => metadata.uid));
      if (known && !there.has(known.object.metadata.uid)) this.#cache.drop(known.object);
      for (const object of items.filter(isDefinition)) this.#cache.put(object);
      return this.#cache.find(name);
    } catch (error) {
      throw toStoreError(error, `look for the service "${name}"`);
    }
  }

  /** Reads the newer version first: it may not have arrived here yet, and a retry would conflict again. */
  async #overtaken(name: string): Promise<StoreError> {
    await this.#fetch(name);
    return changed(name);
  }

  async #listFresh(): Promise<void> {
    try {
      const { items, resourceVersion } = await this.#api.list<ConfigMap>(CONFIG_MAP, {}, { labelSelector: SERVICE });
      this.#cache.onListed(items, resourceVersion);
    } catch (error) {
      throw toStoreError(error, 'list the services');
    }
  }

  async #inVersion(name: string, expected: Version): Promise<ServiceEntry & { record: ServiceRecord }> {
    const known = this.#cache.find(name);
    const entry = known?.object.metadata.resourceVersion === expected ? known : await this.#fetch(name);
    if (!entry) throw absent(name);
    if (entry.object.metadata.resourceVersion !== expected) throw changed(name);
    const { object, record } = entry;
    if (record instanceof StoreError) throw record;
    return { object, record };
  }

  /** As long as the definition is a Go manager's, only the definition says which secrets belong to the service. */
  async #adoptSecrets({ metadata }: Stored<KubeObject>, service: Service): Promise<void> {
    if (metadata.annotations?.[SERVICE_UID_ANNOTATION] === undefined) await this.#options.adoptSecrets(service);
  }

  async #create(service: Service): Promise<Stored<ConfigMap>> {
    const { name } = service.definition;
    const made = await createObject(this.#api, CONFIG_MAP, toConfigMap(service, this.#options.objectStore)).catch(
      (error) => {
        // The namespace may have been deleted: check it again next time.
        this.#options.namespaces.forget();
        if (!(error instanceof StoreError && error.code === 'absent')) throw error;
        const message = `the namespace ${service.namespace} has just been deleted: retry, and it is created again`;
        throw new StoreError('unavailable', message, { cause: error });
      },
    );
    if (made === 'exists') {
      throw new StoreError(
        'conflict',
        `the ConfigMap "${name}" in namespace ${service.namespace} does not belong to this service: choose another name`,
      );
    }
    try {
      await createMarker(service, made, this.#api);
      await this.#options.companions?.ensure(service, made);
    } catch (error) {
      await this.#undo(made);
      throw error;
    }
    return made;
  }

  async #undo(made: Stored<ConfigMap>): Promise<void> {
    await removeObject(this.#api, CONFIG_MAP, made, { anyVersion: true });
    this.#cache.drop(made);
  }
}

function readable(entry: ServiceEntry | undefined): ServiceRecord | undefined {
  if (entry?.record instanceof StoreError) throw entry.record;
  return entry?.record;
}

/** Keeps labels, annotations and owners that others have added to the object. */
function carriedOn(next: ConfigMap, { metadata }: Stored<KubeObject>): ConfigMap {
  const { [FEDERATION]: _, ...kept } = metadata.annotations ?? {};
  return {
    ...next,
    metadata: {
      ...next.metadata,
      labels: { ...metadata.labels, ...next.metadata.labels },
      annotations: { ...kept, ...next.metadata.annotations },
      ...(metadata.ownerReferences && { ownerReferences: metadata.ownerReferences }),
      resourceVersion: metadata.resourceVersion,
    },
  };
}

/** The record of exactly this write, even if the cache has a newer one. */
function recordOf(entry: ServiceEntry | undefined, written: Stored<ConfigMap>): ServiceRecord {
  const same = entry?.object.metadata.resourceVersion === written.metadata.resourceVersion;
  const record = entry && same ? entry.record : fromConfigMap(written);
  if (record instanceof StoreError) throw record;
  return record;
}

const lost = (name: string) =>
  new StoreError('conflict', `the name "${name}" is no longer reserved for this service: retry`);

const absent = (name: string) => new StoreError('absent', `there is no service "${name}"`);

const changed = (name: string) =>
  new StoreError('conflict', `the service "${name}" was changed meanwhile: read it again`);
