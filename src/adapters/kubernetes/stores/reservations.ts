import { RESERVATION_LIFETIME, type Reservation, StoreError } from '../../../ports/index.ts';
import type { Api } from '../client/api.ts';
import { toStoreError } from '../client/api-error.ts';
import { CONFIG_MAP, type ConfigMap, type Stored } from '../client/kinds.ts';
import { createObject, removeObject, replaceObject } from '../client/writes.ts';
import { derivedName, isObjectName, KEY, PURPOSE } from '../objects/labels.ts';

/** The holder of a name. */
interface Holder {
  readonly uid: string;
  /** By the clock of the manager that reserved the name. */
  readonly since: number;
  /** A create is in progress: no second one may begin with the same reservation. */
  readonly used: boolean;
}

/** The object of a reserved name, which is needed to release it. */
export type NameHold = Stored<ConfigMap>;

/**
 * Reserved names without a service yet: one small ConfigMap each, in the manager's namespace, where the API guarantees
 * unique names. Once the service exists, its definition holds the name.
 */
export class Reservations {
  readonly #api: Api;
  readonly #namespace: string;
  readonly #now: () => number;

  constructor(api: Api, namespace: string, now: () => number) {
    this.#api = api;
    this.#namespace = namespace;
    this.#now = now;
  }

  async take({ name, uid }: Reservation): Promise<NameHold | 'taken'> {
    const holder = { uid, since: this.#now(), used: false };
    for (;;) {
      const made = await createObject(this.#api, CONFIG_MAP, this.#object(name, holder));
      if (made !== 'exists') return made;
      const there = await this.#read(name);
      if (!there) continue;
      // The absolute difference, so that a clock that was set back does not keep a name reserved.
      if (Math.abs(this.#now() - readHolder(there).since) < RESERVATION_LIFETIME) return 'taken';
      const taken = await replaceObject(this.#api, CONFIG_MAP, this.#object(name, holder, there), there);
      if (taken === 'absent') continue;
      return taken === 'conflict' ? 'taken' : taken;
    }
  }

  /**
   * Begins the one create that a reservation allows, and renews its lifetime, so that the create has a full lifetime to
   * finish. Undefined when the reservation was lost or already used.
   */
  async use({ name, uid }: Reservation): Promise<NameHold | undefined> {
    const there = await this.#read(name);
    if (!there) return undefined;
    const holder = readHolder(there);
    if (holder.uid !== uid || holder.used) return undefined;
    const object = this.#object(name, { uid, since: this.#now(), used: true }, there);
    const used = await replaceObject(this.#api, CONFIG_MAP, object, there);
    return typeof used === 'string' ? undefined : used;
  }

  /** False when another manager has taken the name over meanwhile. */
  async end(hold: NameHold): Promise<boolean> {
    return (await removeObject(this.#api, CONFIG_MAP, hold)) === 'removed';
  }

  async release({ name, uid }: Reservation): Promise<void> {
    const there = await this.#read(name);
    if (there && readHolder(there).uid === uid) await removeObject(this.#api, CONFIG_MAP, there);
  }

  async #read(name: string): Promise<NameHold | undefined> {
    const place = { namespace: this.#namespace, name: objectName(name) };
    try {
      return await this.#api.get<ConfigMap>(CONFIG_MAP, place);
    } catch (error) {
      throw toStoreError(error, `read ConfigMap ${place.name} in namespace ${place.namespace}`);
    }
  }

  #object(name: string, { uid, since, used }: Holder, before?: NameHold): ConfigMap {
    return {
      metadata: {
        name: objectName(name),
        namespace: this.#namespace,
        labels: { [PURPOSE]: 'name' },
        annotations: { [KEY]: name },
        ...(before && { resourceVersion: before.metadata.resourceVersion }),
      },
      data: { uid, since: new Date(since).toISOString(), used: String(used) },
    };
  }
}

/** A name that people recognise in a listing; text that cannot be the name of a service is hashed. */
function objectName(name: string): string {
  return isObjectName(name) ? `oscar-name-${name}` : derivedName('name', name);
}

function readHolder({ data, metadata }: NameHold): Holder {
  const since = Date.parse(data?.['since'] ?? '');
  if (data?.['uid'] === undefined || Number.isNaN(since)) {
    throw new StoreError(
      'damaged',
      `the ConfigMap ${metadata.name} in namespace ${metadata.namespace} is not a valid reservation of a name`,
    );
  }
  return { uid: data['uid'], since, used: data['used'] === 'true' };
}
