import { PassThrough, type Readable } from 'node:stream';
import type { Api } from '../client/api.ts';
import { ApiError } from '../client/api-error.ts';
import type { KubeKind, KubeObject, ObjectRef, Stored } from '../client/kinds.ts';

/** An in-memory API that executes every request at once and notifies its watches. */
export class FakeApi {
  readonly options = { patienceMs: 0, random: () => 0 };
  /** Each write, such as `post secrets`. */
  readonly writes: string[] = [];
  /** Called for each write; returns an error to reject it. */
  refusal: (write: string, object: KubeObject) => ApiError | undefined = () => undefined;
  /** Watches receive nothing. */
  isMute = false;
  readonly #objects = new Map<string, Stored<KubeObject>>();
  readonly #watches = new Set<{ plural: string; stream: PassThrough }>();
  #version = 0;

  get api(): Api {
    return this as unknown as Api;
  }

  async get<T extends KubeObject>({ plural }: KubeKind, place: ObjectRef): Promise<Stored<T> | undefined> {
    return this.#objects.get(objectKey(plural, place)) as Stored<T> | undefined;
  }

  async list(
    { plural }: KubeKind,
    { namespace }: ObjectRef = {},
    { labelSelector }: { labelSelector?: string } = {},
  ): Promise<{ items: Stored<KubeObject>[]; resourceVersion: string }> {
    const [label = '', value] = labelSelector?.split('=') ?? [];
    const items = this.all(plural).filter(
      ({ metadata }) =>
        (namespace === undefined || metadata.namespace === namespace) &&
        (value === undefined || metadata.labels?.[label] === value),
    );
    return { items, resourceVersion: String(this.#version) };
  }

  async page(
    kind: KubeKind,
    _place: ObjectRef,
    { labelSelector }: { labelSelector?: string },
  ): Promise<{ items: Stored<KubeObject>[] }> {
    const [label = '', value] = labelSelector?.split('=') ?? [];
    return { items: this.all(kind.plural).filter(({ metadata }) => metadata.labels?.[label] === value) };
  }

  async post<T extends KubeObject>({ plural }: KubeKind, namespace: string, object: T): Promise<Stored<T>> {
    this.#recordWrite(`post ${plural}`, object);
    const key = objectKey(plural, { namespace, name: object.metadata.name });
    if (this.#objects.has(key)) throw new ApiError(409, { reason: 'AlreadyExists' });
    const uid = `uid-${++this.#version}`;
    return this.#put(key, { ...object, metadata: { ...object.metadata, uid } } as unknown as Stored<T>, 'ADDED');
  }

  async put<T extends KubeObject>({ plural }: KubeKind, place: ObjectRef, object: T): Promise<Stored<T>> {
    this.#recordWrite(`put ${plural}`, object);
    const there = this.#objects.get(objectKey(plural, place));
    if (!there) throw new ApiError(404, {});
    if (there.metadata.resourceVersion !== object.metadata.resourceVersion) throw new ApiError(409, {});
    return this.#put(objectKey(plural, place), object as unknown as Stored<T>, 'MODIFIED');
  }

  async delete(
    { plural }: KubeKind,
    place: ObjectRef,
    expected: { readonly resourceVersion?: string } = {},
  ): Promise<void> {
    const key = objectKey(plural, place);
    const there = this.#objects.get(key);
    if (!there) throw new ApiError(404, {});
    const { resourceVersion = there.metadata.resourceVersion } = expected;
    if (resourceVersion !== there.metadata.resourceVersion) throw new ApiError(409, {});
    this.#recordWrite(`delete ${plural}`, there);
    this.#objects.delete(key);
    this.#notify(key, 'DELETED', {
      ...there,
      metadata: { ...there.metadata, resourceVersion: String(++this.#version) },
    });
  }

  async openStream({ plural }: KubeKind, _place: ObjectRef, _query: unknown, signal: AbortSignal): Promise<Readable> {
    const watch = { plural, stream: new PassThrough() };
    this.#watches.add(watch);
    signal.addEventListener('abort', () => {
      this.#watches.delete(watch);
      watch.stream.end();
    });
    return watch.stream;
  }

  all(plural: string): Stored<KubeObject>[] {
    return [...this.#objects].filter(([key]) => key.startsWith(`${plural}/`)).map(([, object]) => object);
  }

  #recordWrite(write: string, object: KubeObject): void {
    this.writes.push(write);
    const refusal = this.refusal(write, object);
    if (refusal) throw refusal;
  }

  #put<T extends KubeObject>(key: string, object: Stored<T>, type: string): Stored<T> {
    const next = { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#version) } };
    this.#objects.set(key, next);
    this.#notify(key, type, next);
    return next;
  }

  #notify(key: string, type: string, object: Stored<KubeObject>): void {
    for (const { plural, stream } of this.isMute ? [] : this.#watches)
      if (key.startsWith(`${plural}/`)) stream.write(`${JSON.stringify({ type, object })}\n`);
  }
}

const objectKey = (plural: string, { namespace = '', name = '' }: ObjectRef) => `${plural}/${namespace}/${name}`;
