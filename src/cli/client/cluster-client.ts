import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { HttpAnswer, HttpHead } from '../../lib/http/index.ts';
import type { Secret } from '../../lib/secret.ts';
import type { ClusterEntry } from './config-file.ts';
import { ClientError, type ClientErrorCode } from './errors.ts';
import { bodyBytes, send } from './http.ts';
import { printable } from './table.ts';

/** Who sends requests: the administrator with a password, or a user with a token. */
export interface ClientCredentials {
  readonly kind: 'basic' | 'bearer';
  /** The user's name, if it is known. */
  readonly user?: string;
  /** Creates the value of `Authorization` when it is needed. */
  readonly authorization: () => Promise<Secret>;
}

export interface ClusterCall {
  readonly body?: unknown;
  readonly raw?: string | Uint8Array | Readable;
  readonly headers?: Readonly<Record<string, string>>;
  /** The value of `Authorization`, if it is not the user's. */
  readonly as?: Secret;
  /** Error statuses that the caller handles. */
  readonly expect?: readonly number[];
  /** How long the manager may send nothing. */
  readonly patienceMs?: number | 'for-ever';
  /** What the call is about, for messages: `service "x"`. */
  readonly about?: string;
  /** Whether the call changes something; by default all methods but GET do. */
  readonly changes?: boolean;
}

export interface ClusterAnswer {
  readonly status: number;
  readonly headers: HttpHead['headers'];
  readonly text: string;
  readonly json: () => unknown;
}

/** A federation is created within 14 s; everything else takes less. */
const PATIENCE_MS = 30_000;

/** Attempts at a manager that is overloaded and answers 503 with Retry-After. Such a request had no effect. */
const TRIES = 4;
const LONGEST_WAIT_S = 10;

/** Requests to the manager of one cluster, as one user. */
export class ClusterClient {
  readonly id: string;
  readonly entry: ClusterEntry;
  readonly credentials: ClientCredentials;
  readonly #onChange: () => void;

  /** `onChange` is called before each request that changes something. */
  constructor(id: string, entry: ClusterEntry, credentials: ClientCredentials, onChange: () => void = () => undefined) {
    this.id = id;
    this.entry = entry;
    this.credentials = credentials;
    this.#onChange = onChange;
  }

  /** Sends a request and reads the whole answer. An error status throws a {@link ClientError}. */
  async call(method: string, path: string, options: ClusterCall = {}): Promise<ClusterAnswer> {
    const answer = await this.#send(method, path, options);
    const text = (await bodyBytes(answer, this.#url(path))).toString();
    const { status, headers } = answer;
    if (status >= 400 && !options.expect?.includes(status)) throw this.#refused(answer, text, options.about);
    return { status, headers, text, json: () => this.#parse(text) };
  }

  /** Sends a request and returns the body of the answer as a stream. */
  async stream(method: string, path: string, options: ClusterCall = {}): Promise<Readable> {
    const answer = await this.#send(method, path, { patienceMs: 'for-ever', ...options });
    if (answer.status < 400) return answer.body;
    throw this.#refused(answer, (await bodyBytes(answer, this.#url(path))).toString(), options.about);
  }

  async #send(method: string, path: string, options: ClusterCall): Promise<HttpAnswer> {
    if (options.changes ?? method !== 'GET') this.#onChange();
    const authorization = options.as ?? (await this.credentials.authorization());
    const body = options.raw ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    const patience = options.patienceMs ?? PATIENCE_MS;
    const request = {
      method,
      url: this.#url(path),
      verify: this.entry.ssl_verify,
      headers: {
        authorization: authorization.reveal(),
        ...(options.body !== undefined && { 'content-type': 'application/json' }),
        ...options.headers,
      },
      ...(body !== undefined && { body }),
      ...(patience !== 'for-ever' && { patienceMs: patience }),
    };
    for (let tries = 1; ; tries++) {
      const answer = await send(request);
      const seconds = readRetryAfter(answer);
      // A stream cannot be sent twice.
      if (seconds === undefined || tries === TRIES || body instanceof Readable) return answer;
      answer.body.resume();
      await pause(seconds * 1000);
    }
  }

  #url(path: string): string {
    return `${this.entry.endpoint}${path}`;
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new ClientError(
        'failed',
        `${this.entry.endpoint} did not answer with JSON: is this the address of an OSCAR manager?`,
        { cause },
      );
    }
  }

  #refused({ status, headers }: HttpHead, text: string, about = 'the resource'): ClientError {
    const code = CODES[status] ?? (status >= 500 ? 'failed' : 'bad-input');
    const said = text.trim().split('\n').map(printable).join('\n');
    if (status === 401) return new ClientError(code, this.#explainUnauthorized(headers['www-authenticate'] ?? ''));
    if (status === 404) return new ClientError(code, `${about} not found on ${this.id}, or you have no access to it`);
    if (status === 403) return new ClientError(code, `not allowed: ${said}`);
    if (status === 503) return new ClientError(code, `${said || 'the manager is overloaded'}. Try again in a moment`);
    return new ClientError(code, said || `cluster "${this.id}" answered ${status} without a message`);
  }

  #explainUnauthorized(challenge: string): string {
    const why = /error_description="([^"]*)"/.exec(challenge)?.[1];
    const reason = why ? `: ${printable(why)}` : '';
    return this.credentials.kind === 'bearer'
      ? `cluster "${this.id}" rejected your login${reason}. Log in again with \`oscar login\``
      : `cluster "${this.id}" rejected the user and password of the configuration: correct them with \`oscar clusters add\`, or use \`oscar login\``;
  }
}

const CODES: Readonly<Record<number, ClientErrorCode>> = {
  401: 'login-needed',
  403: 'not-allowed',
  404: 'not-found',
  409: 'conflict',
  410: 'conflict',
  412: 'conflict',
  503: 'unreachable',
  504: 'unreachable',
};

/** The seconds of Retry-After, if the client should wait and try again. */
function readRetryAfter({ status, headers }: HttpHead): number | undefined {
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  return status === 503 && seconds >= 0 && seconds <= LONGEST_WAIT_S ? seconds : undefined;
}
