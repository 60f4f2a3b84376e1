import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { OscarError } from '../../../lib/oscar-error.ts';

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
  readonly #agent = new Agent({ keepAlive: true });
  #version: Promise<EngineVersion> | undefined;

  constructor(socket: string) {
    this.socket = socket;
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
    const late = new AbortController();
    const { deadline = ANSWER_MS } = call;
    const timer = deadline === Infinity ? undefined : setTimeout(() => late.abort(), deadline);
    const signal = call.signal ? AbortSignal.any([call.signal, late.signal]) : late.signal;
    try {
      return this.#chunks(await this.#open(method, `/v${api}${path}`, call, signal), call);
    } catch (error) {
      throw this.#toEngineError(error, call, late.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#agent.destroy();
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
    const { deadline = ANSWER_MS } = call;
    const late = deadline === Infinity ? undefined : AbortSignal.timeout(deadline);
    const signals = [call.signal, late].filter((each) => each !== undefined);
    try {
      const body = await text(await this.#open(method, path, call, AbortSignal.any(signals)));
      return (body.trim() === '' ? undefined : JSON.parse(body)) as T;
    } catch (error) {
      throw this.#toEngineError(error, call, late);
    }
  }

  async #open(method: string, path: string, call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const query = new URLSearchParams(
      Object.entries(call.query ?? {}).map(([key, value]): [string, string] => [key, String(value)]),
    );
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const sent = request({
      socketPath: this.socket,
      agent: this.#agent,
      method,
      path: query.size > 0 ? `${path}?${query.toString()}` : path,
      headers: { host: 'docker', ...(body && { 'content-type': 'application/json', 'content-length': body.length }) },
      signal,
    });
    sent.end(body);
    const response = await waitForResponse(sent);
    const status = response.statusCode ?? 0;
    if (status < 300 || status === 304) return response;
    throw new EngineError(errorCodeFor(status), parseErrorMessage(await text(response), status));
  }

  async *#chunks(answer: IncomingMessage, call: Call): AsyncIterable<Uint8Array> {
    try {
      for await (const chunk of answer) yield chunk as Uint8Array;
    } catch (error) {
      throw this.#toEngineError(error, call, undefined);
    }
  }

  #toEngineError(error: unknown, { signal, deadline = ANSWER_MS }: Call, late: AbortSignal | undefined): unknown {
    if (error instanceof EngineError) return error;
    if (signal?.aborted) return signal.reason;
    if (late?.aborted) {
      return new EngineError('unreachable', `${this.#describe()} did not answer within ${deadline / 1_000} s`);
    }
    return new EngineError('unreachable', `${this.#describe()} ${explainConnectionError(error)}`, { cause: error });
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

function waitForResponse(sent: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    sent.once('response', resolve);
    // Not `once`: a response that is aborted halfway emits an error here too.
    sent.on('error', reject);
  });
}

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
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;

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
  for (let wait = FIRST_PAUSE; ; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
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
