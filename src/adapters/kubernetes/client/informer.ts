import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { type Api, backoff } from './api.ts';
import { ApiError, ConnectionError, isGone, type Status } from './api-error.ts';
import type { KubeKind, KubeObject, Stored } from './kinds.ts';

/** Receives what the informer learns from the API server. */
export interface InformerHandler<T extends KubeObject> {
  /** The complete list of objects at this version. */
  onListed(objects: readonly Stored<T>[], resourceVersion: string): void;
  onChanged(object: Stored<T>): void;
  onDeleted(object: Stored<T>): void;
  /** The list or watch failed: the handler's state may be stale until the informer has recovered by itself. */
  onError(error: unknown): void;
  /** Reduces an object to the parts that the handler reads, so that a long list takes less memory. Default: the whole object. */
  readonly slim?: (object: Stored<T>) => Stored<T>;
}

export interface InformerOptions {
  readonly labelSelector?: string;
  /** An object that no longer matches counts as deleted. */
  readonly fieldSelector?: string;
  /** How long the server keeps one watch open; the informer then resumes it. */
  readonly watchMs: number;
  /**
   * A watch without any event for this long counts as broken. The server sends a bookmark about every minute, so a shorter
   * time drops healthy connections; a longer one leaves a manager behind a broken network with a stale cache.
   */
  readonly silenceMs: number;
}

/** Managers that must list again at the same moment are spread over this many ms. */
const RELIST_SPREAD = 1_000;

type WatchEvent<T extends KubeObject> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: Stored<T> }
  | { type: 'BOOKMARK'; object: { metadata: { resourceVersion: string } } }
  | { type: 'ERROR'; object: Status & { code?: number } };

/**
 * Lists the objects of a kind once, then watches from that version on and resumes the watch when the connection ends. It
 * lists again only when the server no longer knows the version, after a random wait, because all managers get that answer
 * at the same moment.
 */
export class Informer<T extends KubeObject> {
  readonly #api: Api;
  readonly #kind: KubeKind;
  readonly #listener: InformerHandler<T>;
  readonly #options: InformerOptions;
  readonly #stop = new AbortController();
  readonly #synced = Promise.withResolvers<void>();
  #running: Promise<void> | undefined;
  #version: string | undefined;
  #live = false;
  #lists = 0;

  constructor(api: Api, kind: KubeKind, listener: InformerHandler<T>, options: InformerOptions) {
    this.#api = api;
    this.#kind = kind;
    this.#listener = listener;
    this.#options = options;
  }

  /** Whether a watch is open. If not, what the handler knows may be stale. */
  get live(): boolean {
    return this.#live;
  }

  /** Number of completed lists. */
  get lists(): number {
    return this.#lists;
  }

  /** Resolves when everything has been listed once. Listing is retried until `stop` is called. */
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
        // Back off, so that a server which ends every watch at once is not asked in a tight loop.
        else await this.#backOff(failures++);
      } catch (error) {
        if (signal.aborted) return;
        this.#listener.onError(error);
        await this.#backOff(failures++);
        if (isGone(error)) await this.#forgetVersion();
      }
    }
  }

  async #forgetVersion(): Promise<void> {
    this.#version = undefined;
    const delay = RELIST_SPREAD * this.#api.options.random();
    await pause(delay, undefined, { signal: this.#stop.signal }).catch(() => {});
  }

  async #backOff(failures: number): Promise<void> {
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
    this.#listener.onListed(items, resourceVersion);
    this.#synced.resolve();
    return resourceVersion;
  }

  /** Watches until the server ends the watch normally. Returns whether any event arrived. */
  async #watch(version: string): Promise<boolean> {
    const { labelSelector, fieldSelector, watchMs, silenceMs } = this.#options;
    const ended = new AbortController();
    const signal = AbortSignal.any([this.#stop.signal, ended.signal]);
    const silence = setTimeout(() => ended.abort(), silenceMs);
    let received = false;
    try {
      const query = {
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: version,
        labelSelector,
        fieldSelector,
        timeoutSeconds: Math.ceil((watchMs / 1_000) * (1 + this.#api.options.random())),
      };
      const stream = await this.#api.openStream(this.#kind, {}, query, signal);
      this.#live = true;
      for await (const line of readLines(stream)) {
        silence.refresh();
        received = true;
        this.#handle(JSON.parse(line));
      }
      return received;
    } catch (error) {
      if (ended.signal.aborted) throw watchCut(new Error(`no event arrived for ${silenceMs} ms`));
      throw error instanceof ApiError ? error : watchCut(error);
    } finally {
      this.#live = false;
      clearTimeout(silence);
      ended.abort();
    }
  }

  #handle(event: WatchEvent<T>): void {
    if (event.type === 'ERROR') throw new ApiError(event.object.code ?? 500, event.object);
    if (event.type === 'DELETED') this.#listener.onDeleted(event.object);
    else if (event.type !== 'BOOKMARK') this.#listener.onChanged(event.object);
    this.#version = event.object.metadata.resourceVersion;
  }
}

function watchCut(cause: unknown): ConnectionError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new ConnectionError(true, `the watch of the Kubernetes API was cut off: ${reason}`, { cause });
}

/** Yields each complete line of a stream; an unfinished last line is dropped. */
export async function* readLines(stream: Readable): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of stream.setEncoding('utf8')) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}
