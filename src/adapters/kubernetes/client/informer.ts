import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { type Api, backoff } from './api.ts';
import { ApiError, ConnectionError, isGone, type Status } from './api-error.ts';
import type { KubeKind, KubeObject, Stored } from './kinds.ts';

/** What is told to whoever keeps the objects. */
export interface Listener<T extends KubeObject> {
  /** All objects there were at that version. */
  listed(objects: readonly Stored<T>[], resourceVersion: string): void;
  changed(object: Stored<T>): void;
  deleted(object: Stored<T>): void;
  /** What is known may fall behind from now on. It is mended by itself. */
  troubled(error: unknown): void;
  /** The part of an object that is looked at: of a long list of large ones, only that is held. All of it if left out. */
  readonly slim?: (object: Stored<T>) => Stored<T>;
}

export interface InformerOptions {
  readonly labelSelector?: string;
  /** An object that comes to be outside of it counts as deleted. */
  readonly fieldSelector?: string;
  /** How long the server keeps one watch open; it is then resumed. */
  readonly watchMs: number;
  /**
   * A watch that says nothing for that long is dead. The server sends a bookmark about every minute, so less than that
   * drops connections that are well; more leaves a manager behind a broken network with an old picture.
   */
  readonly silenceMs: number;
}

/** Over how long managers that must list again at the same moment are spread. */
const RELIST_SPREAD = 1_000;

type WatchEvent<T extends KubeObject> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Stored<T> }
  | { type: 'BOOKMARK'; object: { metadata: { resourceVersion: string } } }
  | { type: 'ERROR'; object: Status & { code?: number } };

/**
 * Knows all objects of a kind: lists them once, then watches from that version on and resumes where it was when the
 * connection ends. Only when the server has forgotten that version it lists again, after a random wait, because all
 * managers are told so in the same moment.
 */
export class Informer<T extends KubeObject> {
  readonly #api: Api;
  readonly #kind: KubeKind;
  readonly #listener: Listener<T>;
  readonly #options: InformerOptions;
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;
  #version: string | undefined;
  #live = false;
  #lists = 0;

  constructor(api: Api, kind: KubeKind, listener: Listener<T>, options: InformerOptions) {
    this.#api = api;
    this.#kind = kind;
    this.#listener = listener;
    this.#options = options;
  }

  /** Is it being told what changes? If not, what it has told may be old. */
  get live(): boolean {
    return this.#live;
  }

  /** Lists there have been. */
  get lists(): number {
    return this.#lists;
  }

  /** Resolves when everything has been listed once; that is tried until it is stopped. */
  async start(): Promise<void> {
    this.#running ??= this.#run();
    await this.#synced.promise;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    this.#synced.resolve();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    let failures = 0;
    while (!signal.aborted) {
      try {
        this.#version ??= await this.#list();
        if (await this.#watch(this.#version)) failures = 0;
        // A server that ends watches as soon as they begin is not asked in a loop.
        else await this.#rest(failures++);
      } catch (error) {
        if (signal.aborted) return;
        this.#listener.troubled(error);
        await this.#rest(failures++);
        if (isGone(error)) await this.#forgetVersion();
      }
    }
  }

  async #forgetVersion(): Promise<void> {
    this.#version = undefined;
    const delay = RELIST_SPREAD * this.#api.options.random();
    await pause(delay, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  async #rest(failures: number): Promise<void> {
    const delay = backoff(failures, this.#api.options.random);
    await pause(delay, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  async #list(): Promise<string> {
    const { labelSelector, fieldSelector } = this.#options;
    const selected = { ...(labelSelector && { labelSelector }), ...(fieldSelector && { fieldSelector }) };
    const { items, resourceVersion } = await this.#api.list<T>(
      this.#kind,
      {},
      { ...selected, slim: this.#listener.slim },
    );
    if (this.#stop.signal.aborted) return resourceVersion;
    this.#lists++;
    this.#listener.listed(items, resourceVersion);
    this.#synced.resolve();
    return resourceVersion;
  }

  /** Until the server ends it in good order. Says if anything was heard. */
  async #watch(version: string): Promise<boolean> {
    const { labelSelector, fieldSelector, watchMs, silenceMs } = this.#options;
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ended.signal]);
    const silence = setTimeout(() => ended.abort(), silenceMs);
    let heard = false;
    try {
      const query = {
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: version,
        labelSelector,
        fieldSelector,
        timeoutSeconds: Math.ceil((watchMs / 1_000) * (1 + this.#api.options.random())),
      };
      const stream = await this.#api.stream(this.#kind, {}, query, signal);
      this.#live = true;
      for await (const line of watchLines(stream)) {
        silence.refresh();
        heard = true;
        this.#hear(JSON.parse(line));
      }
      return heard;
    } catch (error) {
      if (ended.signal.aborted) throw cut(new Error(`nothing was heard for ${silenceMs} ms`));
      throw error instanceof ApiError ? error : cut(error);
    } finally {
      this.#live = false;
      clearTimeout(silence);
      ended.abort();
    }
  }

  #hear(event: WatchEvent<T>): void {
    if (event.type === 'ERROR') throw new ApiError(event.object.code ?? 500, event.object);
    if (event.type === 'DELETED') this.#listener.deleted(event.object);
    else if (event.type !== 'BOOKMARK') this.#listener.changed(event.object);
    this.#version = event.object.metadata.resourceVersion;
  }
}

function cut(cause: unknown): ConnectionError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ConnectionError(true, `the watch of the Kubernetes API was cut: ${reason}`, { cause });
}

/** Each whole line of what the server sends; one that it did not finish is left out. */
export async function* watchLines(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
