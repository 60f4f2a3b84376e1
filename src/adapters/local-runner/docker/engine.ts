import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { OscarError } from '../../../lib/oscar-error.ts';

/**
 * What the daemon may answer. `absent`: there is no such container or image. `conflict`: the name is taken, or the
 * container is not in a state for this. `refused`: it says no. `unreachable`: it does not answer; what was asked for may
 * have been done or not. `unsupported`: it is too old for us.
 */
export type EngineErrorCode = 'absent' | 'conflict' | 'refused' | 'unreachable' | 'unsupported';

export class EngineError extends OscarError<EngineErrorCode> {}

/** The oldest API that has everything we use (`one-shot` statistics came last): Docker 20.10, Podman 4. */
const OLDEST = '1.41';

/** For an answer that the daemon has at hand. A daemon that starts ten containers at once can take seconds for each. */
const ANSWER_MS = 120_000;

interface Call {
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** Milliseconds for the whole answer, or until it begins when it is a stream; `Infinity` for one that comes when it comes. */
  readonly deadline?: number;
}

interface EngineVersion {
  /** `Docker 20.10.24`, for people. */
  readonly name: string;
  readonly podman: boolean;
  readonly api: string;
}

/** The Engine API of Docker, which Podman speaks too, over a unix socket. */
export class Engine {
  readonly socket: string;
  readonly #agent = new Agent({ keepAlive: true });
  #version: Promise<EngineVersion> | undefined;

  constructor(socket: string) {
    this.socket = socket;
  }

  /** What answers here. Throws `unsupported` when it is too old. */
  async version(deadline = ANSWER_MS): Promise<EngineVersion> {
    this.#version ??= this.#negotiate(deadline);
    const asked = this.#version;
    try {
      return await asked;
    } catch (error) {
      // A daemon that is away now may be another one when it is back.
      if (this.#version === asked) this.#version = undefined;
      throw error;
    }
  }

  /** The whole answer, read as JSON; undefined when it is empty. */
  async ask<T>(method: string, path: string, call: Call = {}): Promise<T> {
    const { api } = await this.version();
    return await this.#whole<T>(method, `/v${api}${path}`, call);
  }

  /** An answer that comes bit by bit. */
  async stream(method: string, path: string, call: Call = {}): Promise<AsyncIterable<Uint8Array>> {
    const { api } = await this.version();
    const late = new AbortController();
    const { deadline = ANSWER_MS } = call;
    const timer = deadline === Infinity ? undefined : setTimeout(() => late.abort(), deadline);
    const signal = call.signal ? AbortSignal.any([call.signal, late.signal]) : late.signal;
    try {
      return this.#chunks(await this.#open(method, `/v${api}${path}`, call, signal), call);
    } catch (error) {
      throw this.#explained(error, call, late.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  async #negotiate(deadline: number): Promise<EngineVersion> {
    const answer = await this.#whole<VersionAnswer>('GET', '/version', { deadline });
    const product = answer.Components?.[0]?.Name?.split(' ')[0] ?? 'Docker';
    const name = `${product === 'Engine' ? 'Docker' : product} ${answer.Version}`;
    if (isOlder(answer.ApiVersion, OLDEST)) {
      const needed = 'at least Docker 20.10 or Podman 4 is needed';
      throw new EngineError('unsupported', `${name} at ${this.socket} has API ${answer.ApiVersion}: ${needed}`);
    }
    const least = answer.MinAPIVersion;
    return { name, podman: product === 'Podman', api: least && isOlder(OLDEST, least) ? least : OLDEST };
  }

  async #whole<T>(method: string, path: string, call: Call): Promise<T> {
    const { deadline = ANSWER_MS } = call;
    const late = deadline === Infinity ? undefined : AbortSignal.timeout(deadline);
    const signals = [call.signal, late].filter((each) => each !== undefined);
    try {
      const body = await text(await this.#open(method, path, call, AbortSignal.any(signals)));
      return (body.trim() === '' ? undefined : JSON.parse(body)) as T;
    } catch (error) {
      throw this.#explained(error, call, late);
    }
  }

  async #open(method: string, path: string, call: Call, signal: AbortSignal): Promise<IncomingMessage> {
    const query = new URLSearchParams(
      Object.entries(call.query ?? {}).map(([key, value]): [string, string] => [key, String(value)]),
    );
    const body = call.body === undefined ? undefined : Buffer.from(JSON.stringify(call.body));
    const asked = request({
      socketPath: this.socket,
      agent: this.#agent,
      method,
      path: query.size > 0 ? `${path}?${query.toString()}` : path,
      headers: { host: 'docker', ...(body && { 'content-type': 'application/json', 'content-length': body.length }) },
      signal,
    });
    asked.end(body);
    const response = await answered(asked);
    const status = response.statusCode ?? 0;
    if (status < 300 || status === 304) return response;
    throw new EngineError(codeOf(status), sentenceOf(await text(response), status));
  }

  async *#chunks(answer: IncomingMessage, call: Call): AsyncIterable<Uint8Array> {
    try {
      for await (const chunk of answer) yield chunk as Uint8Array;
    } catch (error) {
      throw this.#explained(error, call, undefined);
    }
  }

  #explained(error: unknown, { signal, deadline = ANSWER_MS }: Call, late: AbortSignal | undefined): unknown {
    if (error instanceof EngineError) return error;
    if (signal?.aborted) return signal.reason;
    if (late?.aborted) {
      return new EngineError('unreachable', `${this.#name()} did not answer within ${deadline / 1_000} s`);
    }
    return new EngineError('unreachable', `${this.#name()} ${reasonOf(error)}`, { cause: error });
  }

  #name(): string {
    return `the container engine at ${this.socket}`;
  }
}

interface VersionAnswer {
  readonly Version: string;
  readonly ApiVersion: string;
  readonly MinAPIVersion?: string;
  readonly Components?: readonly { readonly Name?: string }[];
}

function answered(asked: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    asked.once('response', resolve);
    // Stays: an answer that was ended half-way reports here as well.
    asked.on('error', reject);
  });
}

function codeOf(status: number): EngineErrorCode {
  if (status === 404) return 'absent';
  if (status === 409) return 'conflict';
  return status === 503 ? 'unreachable' : 'refused';
}

/** The daemon's own words, which are sentences already. */
function sentenceOf(body: string, status: number): string {
  try {
    const { message } = JSON.parse(body) as { message?: string };
    if (message) return message.trim();
  } catch {
    // Then it is no JSON, and may be text.
  }
  return body.trim() || `status ${status} without a reason`;
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'is not there: is it running?',
  ECONNREFUSED: 'does not listen: is it running?',
  EACCES: 'may not be used by this user: the group of the socket may (as `docker`)',
};

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  return REASONS[code] ?? `does not answer (${code || String(error)})`;
}

/** Of versions as `1.41`. */
function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [thanMajor = 0, thanMinor = 0] = than.split('.').map(Number);
  return major < thanMajor || (major === thanMajor && minor < thanMinor);
}

/** The lines of a stream that are not empty. */
export async function* dockerLines(stream: AsyncIterable<Uint8Array>): AsyncIterable<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines.filter((line) => line.trim() !== '');
  }
  if (rest.trim() !== '') yield rest;
}

/** Between two tries: at first as long as a restarted daemon could be back in, then without bothering anybody. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 2_000;

interface Patience {
  readonly signal: AbortSignal;
  /** Milliseconds in which the daemon must be back; `Infinity` for what may only be known from it. */
  readonly within: number;
  readonly whenAway?: () => void;
}

/** Tries again for as long as the daemon cannot be reached. Only for what may be done twice. */
export async function patiently<T>(task: () => Promise<T>, { signal, within, whenAway }: Patience): Promise<T> {
  const end = performance.now() + within;
  for (let wait = FIRST_PAUSE; ; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
    try {
      return await task();
    } catch (error) {
      const away = error instanceof EngineError && error.code === 'unreachable';
      if (!away || performance.now() + wait > end) throw error;
    }
    whenAway?.();
    await pause(wait, undefined, { signal });
  }
}
