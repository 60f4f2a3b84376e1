import type { Listener } from './informer.ts';
import { isNewer, type KubeObject, type Stored } from './kinds.ts';

/** Removed objects that are remembered. An answer that is older than so many removals is not awaited any more. */
const REMEMBERED = 10_000;

/**
 * The objects of a kind by what identifies them in the cluster, which is mostly their name, from lists and watches and from the answers to our
 * own writes, in whatever order these arrive: the newer version stays, and what was removed does not come back.
 */
export class WatchCache<T extends KubeObject> implements Listener<T> {
  readonly #objects = new Map<string, Stored<T>>();
  readonly #removed = new Map<string, string>();
  readonly #tell: (name: string) => void;
  readonly #report: (problem: unknown) => void;
  readonly #keyOf: (object: KubeObject) => string;
  readonly slim: (object: Stored<T>) => Stored<T>;

  constructor(
    slim: (object: Stored<T>) => Stored<T>,
    tell: (name: string) => void,
    report: (problem: unknown) => void,
    keyOf = ({ metadata }: KubeObject) => metadata.name,
  ) {
    this.slim = slim;
    this.#tell = tell;
    this.#report = report;
    this.#keyOf = keyOf;
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
    const name = this.#keyOf(object);
    const known = this.#objects.get(name);
    if (known && !isNewer(resourceVersion, known.metadata.resourceVersion)) return;
    this.#objects.set(name, this.slim(object));
    this.#tell(name);
  }

  /** The server has it no longer. */
  drop(object: Stored<KubeObject>): void {
    const { uid, resourceVersion } = object.metadata;
    this.#removed.set(uid, resourceVersion);
    if (this.#removed.size > REMEMBERED) {
      for (const oldest of this.#removed.keys()) {
        this.#removed.delete(oldest);
        break;
      }
    }
    const name = this.#keyOf(object);
    if (this.#objects.get(name)?.metadata.uid !== uid) return;
    this.#objects.delete(name);
    this.#tell(name);
  }

  listed(objects: readonly Stored<T>[], resourceVersion: string): void {
    const there = new Set(objects.map(({ metadata }) => metadata.uid));
    for (const object of this.#objects.values()) {
      // What we have written since that version cannot be in the list.
      const listed = there.has(object.metadata.uid) || isNewer(object.metadata.resourceVersion, resourceVersion);
      if (!listed) this.drop(object);
    }
    for (const object of objects) this.put(object);
  }

  changed(object: Stored<T>): void {
    this.put(object);
  }

  deleted(object: Stored<T>): void {
    this.drop(object);
  }

  troubled(error: unknown): void {
    this.#report(error);
  }
}
