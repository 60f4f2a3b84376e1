import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { HttpClient, HttpClientError, originalError } from '../../../lib/http/index.ts';
import { OscarError } from '../../../lib/oscar-error.ts';
import { backoffDelay } from '../../../lib/retry.ts';

/**
 * `absent`: no such container or image. `conflict`: the name is taken, or the container's state does not allow the request.
 * `refused`: any other error of the daemon. `unreachable`: the daemon does not answer; it may have executed the request.
 * `unsupported`: its API is too old.
 */
export type EngineErrorCode = 'absent' | 'conflict' | 'refused' | 'unreachable' | 'unsupported';

export class EngineError extends OscarError<EngineErrorCode> {}

/** The oldest API with all features used here (`one-shot` statistics came last): Docker 20.10, Podman 4. */
const OLDEST_API = '1.41';

/** Longer than a busy daemon needs, which can take seconds for each of ten starts. Longer still hides a daemon that hangs. */
const ANSWER_MS = 120_000;

/** Larger than any answer that is not a stream: a list of thousands of containers. */
const MAX_BYTES = 256 * 2 ** 20;

interface Call {
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** Milliseconds until the complete response, or until the headers of a stream. `Infinity` for a request that blocks. */
  readonly deadline?: number;
}

interface EngineVersion {
  /** Such as `Docker 20.10.24`, for messages. */
  readonly name: string;
  readonly podman: boolean;
  readonly api: string;
}

/** A client of the Docker Engine API, which Podman implements too, over a unix socket. */
export class Engine {
  readonly socket: string;
  readonly #client: HttpClient;
  #version: Promise<EngineVersion> | undefined;

  constructor(socket: string) {
    this.socket = socket;
    this.#client = new HttpClient({ socketPath: socket, verify: true });
  }

  /** Throws `unsupported` if the engine's API is too old. */
  async version(deadline = ANSWER_MS): Promise<EngineVersion> {
    this.#version ??= this.#negotiate(deadline);
    const negotiated = this.#version;
    try {
      return await negotiated;
    } catch (error) {
      // The daemon may have another version when it is back.
      if (this.#version === negotiated) this.#version = undefined;
      throw error;
    }
  }

  /** Returns the parsed JSON of the response, or undefined if its body is empty. */
  async request<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const { api } = await this.version();
    return await this.#requestJson<T>(method, `/v${api}${path}`, call);
  }

  /** Returns the body of the response while it arrives. */
  async stream(method: string, path: string, call: Call = {}): Promise<AsyncIterable<Uint8Array>> {
    const { api } = await this.version();
    try {
      const { status, body } = await this.#client.open(toRequest(method, `/v${api}${path}`, call));
      if (!isSuccess(status)) throw toError(status, await text(body));
      return this.#chunks(body, call);
    } catch (error) {
      throw this.#toEngineError(error, call);
    }
  }

  close(): void {
    this.#client.close();
  }

  async #negotiate(deadline: number): Promise<EngineVersion> {
    const answer = await this.#requestJson<VersionAnswer>('GET', '/version', { deadline });
    const product = answer.Components?.[0]?.Name?.split(' ')[0] ?? 'Docker';
    const name = `${product === 'Engine' ? 'Docker' : product} ${answer.Version}`;
    if (isOlder(answer.ApiVersion, OLDEST_API)) {
      const needed = 'at least Docker 20.10 or Podman 4 is needed';
      throw new EngineError('unsupported', `${name} at ${this.socket} has API ${answer.ApiVersion}: ${needed}`);
    }
    const least = answer.MinAPIVersion;
    return { name, podman: product === 'Podman', api: least && isOlder(OLDEST_API, least) ? least : OLDEST_API };
  }

  async #requestJson<T>(method: string, path: string, call: Call): Promise<T> {
    try {
      const answer = await this.#client.send({ ...toRequest(method, path, call), maxBytes: MAX_BYTES });
      const body = answer.body.toString();
      if (!isSuccess(answer.status)) throw toError(answer.status, body);
      return (body.trim() === '' ? undefined : JSON.parse(body)) as T;
    } catch (error) {
      throw this.#toEngineError(error, call);
    }
  }

  async *#chunks(body: Readable, call: Call): AsyncIterable<Uint8Array> {
    try {
      for await (const chunk of body) yield chunk as Uint8Array;
    } catch (error) {
      throw this.#toEngineError(error, call);
    }
  }

  #toEngineError(error: unknown, { signal, deadline = ANSWER_MS }: Call): unknown {
    if (error instanceof EngineError) return error;
    if (signal?.aborted) return signal.reason;
    if (error instanceof HttpClientError && error.code === 'timed-out') {
      return new EngineError('unreachable', `${this.#describe()} did not answer within ${deadline / 1_000} s`);
    }
    const cause = originalError(error);
    return new EngineError('unreachable', `${this.#describe()} ${explainConnectionError(cause)}`, { cause });
  }

  #describe(): string {
    return `the container engine at ${this.socket}`;
  }
}

interface VersionAnswer {
  readonly Version: string;
  readonly ApiVersion: string;
  readonly MinAPIVersion?: string;
  readonly Components?: readonly { readonly Name?: string }[];
}

function toRequest(method: string, path: string, { query, body, signal, deadline = ANSWER_MS }: Call) {
  const parameters = new URLSearchParams(
    Object.entries(query ?? {}).map(([key, value]): [string, string] => [key, String(value)]),
  );
  return {
    method,
    url: 'http://docker',
    path: parameters.size > 0 ? `${path}?${parameters.toString()}` : path,
    signal,
    deadline: deadline === Infinity ? undefined : deadline,
    ...(body !== undefined && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  };
}

const isSuccess = (status: number) => status < 300 || status === 304;

const toError = (status: number, body: string) =>
  new EngineError(errorCodeFor(status), parseErrorMessage(body, status));

function errorCodeFor(status: number): EngineErrorCode {
  if (status === 404) return 'absent';
  if (status === 409) return 'conflict';
  return status === 503 ? 'unreachable' : 'refused';
}

/** The daemon's own message. */
function parseErrorMessage(body: string, status: number): string {
  try {
    const { message } = JSON.parse(body) as { message?: string };
    if (message) return message.trim();
  } catch {
    // The body is not JSON, so it is used as text.
  }
  return body.trim() || `status ${status} without a reason`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist: is it running?',
  ECONNREFUSED: 'refused the connection: is it running?',
  EACCES: 'denies access to this user: add the user to the group of the socket (usually `docker`)',
};

function explainConnectionError(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return REASONS[code] ?? `does not answer (${code || String(error)})`;
}

/** Compares versions such as `1.41`. */
function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [thanMajor = 0, thanMinor = 0] = than.split('.').map(Number);
  return major < thanMajor || (major === thanMajor && minor < thanMinor);
}

/** Yields the non-empty lines of a stream. */
export async function* splitLines(stream: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines.filter((line) => line.trim() !== '');
  }
  if (rest.trim() !== '') yield rest;
}

/** The first retries are fast because a restarted daemon is back soon; later ones are rare because they only cost CPU. */
const RETRY = { first: 50, longest: 2_000 };

interface RetryOptions {
  readonly signal: AbortSignal;
  /** Milliseconds until it gives up; `Infinity` where only the daemon has the answer. */
  readonly within: number;
  readonly onUnreachable?: () => void;
}

/** Retries while the daemon is unreachable. The task must be idempotent. */
export async function retryWhileUnreachable<T>(
  task: () => Promise<T>,
  { signal, within, onUnreachable }: RetryOptions,
): Promise<T> {
  const end = performance.now() + within;
  for (let failures = 1; ; failures++) {
    const wait = backoffDelay(failures, RETRY);
    try {
      return await task();
    } catch (error) {
      const unreachable = error instanceof EngineError && error.code === 'unreachable';
      if (!unreachable || performance.now() + wait > end) throw error;
    }
    onUnreachable?.();
    await pause(wait, undefined, { signal });
  }
}
