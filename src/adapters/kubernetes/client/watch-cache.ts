import type { InformerHandler } from './informer.ts';
import { isNewer, type KubeObject, type Stored } from './kinds.ts';

/**
 * How many removed objects are remembered. With fewer, a delayed response could bring back a removed object; more take
 * memory, some 100 bytes each.
 */
const REMEMBERED = 10_000;

/**
 * The objects of a kind, by a key that is unique in the cluster (by default their name). It is fed by lists, watches and
 * the responses to the manager's own writes, in any order: the newest version stays, and a removed object does not come
 * back.
 */
export class WatchCache<T extends KubeObject> implements InformerHandler<T> {
  readonly #objects = new Map<string, Stored<T>>();
  readonly #removed = new Map<string, string>();
  readonly #notify: (name: string) => void;
  readonly #report: (problem: unknown) => void;
  readonly #toKey: (object: KubeObject) => string;
  readonly slim: (object: Stored<T>) => Stored<T>;

  constructor(
    slim: (object: Stored<T>) => Stored<T>,
    onChange: (name: string) => void,
    report: (problem: unknown) => void,
    toKey = ({ metadata }: KubeObject) => metadata.name,
  ) {
    this.slim = slim;
    this.#notify = onChange;
    this.#report = report;
    this.#toKey = toKey;
  }

  get(name: string): Stored<T> | undefined {
    return this.#objects.get(name);
  }

  names(): string[] {
    return [...this.#objects.keys()];
  }

  values(): Stored<T>[] {
    return [...this.#objects.values()];
  }

  put(object: Stored<T>): void {
    const { uid, resourceVersion } = object.metadata;
    if (this.#removed.has(uid)) return;
    const name = this.#toKey(object);
    const known = this.#objects.get(name);
    if (known && !isNewer(resourceVersion, known.metadata.resourceVersion)) return;
    this.#objects.set(name, this.slim(object));
    this.#notify(name);
  }

  /** Call when the server no longer has the object. */
  drop(object: Stored<KubeObject>): void {
    const { uid, resourceVersion } = object.metadata;
    this.#removed.set(uid, resourceVersion);
    if (this.#removed.size > REMEMBERED) {
      for (const oldest of this.#removed.keys()) {
        this.#removed.delete(oldest);
        break;
      }
    }
    const name = this.#toKey(object);
    if (this.#objects.get(name)?.metadata.uid !== uid) return;
    this.#objects.delete(name);
    this.#notify(name);
  }

  onListed(objects: readonly Stored<T>[], resourceVersion: string): void {
    const there = new Set(objects.map(({ metadata }) => metadata.uid));
    for (const object of this.#objects.values()) {
      // An object that this manager has written since that version cannot be in the list.
      const listed = there.has(object.metadata.uid) || isNewer(object.metadata.resourceVersion, resourceVersion);
      if (!listed) this.drop(object);
    }
    for (const object of objects) this.put(object);
  }

  onChanged(object: Stored<T>): void {
    this.put(object);
  }

  onDeleted(object: Stored<T>): void {
    this.drop(object);
  }

  onError(error: unknown): void {
    this.#report(error);
  }
}
