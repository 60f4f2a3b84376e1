import http from 'node:http';
import https from 'node:https';
import { setTimeout as pause } from 'node:timers/promises';
import { StoreError } from '../../../cluster/index.ts';
import { SigningSecret, signRequest } from '../../../objectstore/index.ts';
import { connectionFailure, createAgents } from '../../../outbound/index.ts';
import type { StoreKeys } from '../../object-store.ts';
import { dateOf } from './fence.ts';
import { isBusy, Refusal } from './refusal.ts';

export interface RequestsOptions {
  /** The store, as the manager reaches it. */
  readonly endpoint: string;
  readonly region: string;
  /** Is its certificate looked at? */
  readonly verify: boolean;
}

export interface StoreRequest {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Decoded. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly service?: 's3' | 'sts';
  /** The most bytes that an answer may have; it is not read if it has more. */
  readonly mostBytes?: number;
  /** Milliseconds until there is an answer. */
  readonly deadline?: number;
  /** It is not sent again, whatever becomes of it. */
  readonly once?: boolean;
}

export interface StoreAnswer {
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Shorter: a store that syncs a slow disk is given up. Longer: whoever creates a service waits for a dead one. */
const DEADLINE = 10_000;

const CONNECT_DEADLINE = 3_000;

/** A connection that the store has closed meanwhile, or a store that is busy, deserves another try. */
const TRIES = 3;
const FIRST_WAIT = 100;

/** Larger than any answer that is read whole: a list of a thousand keys of the longest kind. */
const MOST_BYTES = 16 * 1024 * 1024;

/** Signed requests to a store that the operator chose. What is sent may be sent twice, unless it says otherwise. */
export class Requests {
  readonly #options: RequestsOptions;
  readonly #agents: ReturnType<typeof createAgents>;
  readonly #secrets = new WeakMap<object, SigningSecret>();

  constructor(options: RequestsOptions) {
    this.#options = options;
    this.#agents = createAgents({ verify: options.verify, connectDeadline: CONNECT_DEADLINE });
  }

  /** Throws {@link Refusal} for what the store refuses, and `unavailable` when it does not answer as it should. */
  async send(request: StoreRequest, keys: StoreKeys): Promise<StoreAnswer> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try(request, keys);
      } catch (error) {
        const passes = error instanceof Refusal ? isBusy(error) : connectionFailure(error, '') !== undefined;
        if (!passes) throw error;
        if (tries === TRIES || request.once) throw this.#unavailable(error);
        await pause(FIRST_WAIT * 2 ** (tries - 1));
      }
    }
  }

  close(): void {
    this.#agents.close();
  }

  #try(request: StoreRequest, keys: StoreKeys): Promise<StoreAnswer> {
    const { endpoint, region } = this.#options;
    const body = typeof request.body === 'string' ? Buffer.from(request.body) : (request.body ?? new Uint8Array());
    const { url, headers } = signRequest({
      ...request,
      endpoint,
      region,
      body,
      accessKey: keys.accessKey.reveal(),
      secret: this.#secretOf(keys),
      service: request.service ?? 's3',
      now: changes(request) ? dateOf(Date.now()) : Date.now(),
    });
    const secure = url.protocol === 'https:';
    const options = { method: request.method, agent: secure ? this.#agents.https : this.#agents.http };
    const { promise, resolve, reject } = Promise.withResolvers<StoreAnswer>();
    const sent = (secure ? https : http).request(url, {
      ...options,
      headers: { ...headers, 'content-length': String(body.length) },
      timeout: request.deadline ?? DEADLINE,
    });
    sent.on('timeout', () => sent.destroy(Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' })));
    sent.on('error', reject);
    sent.on('response', (response) => void receive(response, request).then(resolve, reject));
    sent.end(body);
    return promise;
  }

  /** Deriving a key costs four hashes; it is the same all day. */
  #secretOf(keys: StoreKeys): SigningSecret {
    const known = this.#secrets.get(keys.secretKey);
    if (known) return known;
    const made = new SigningSecret(keys.secretKey.reveal());
    this.#secrets.set(keys.secretKey, made);
    return made;
  }

  #unavailable(cause: unknown): StoreError {
    const host = new URL(this.#options.endpoint).host;
    const why =
      connectionFailure(cause, host)?.message ??
      (cause instanceof Refusal ? cause.message : `"${host}" does not answer`);
    const message = `the object store cannot be used now: ${why}: what was asked for may be done in part; try it again`;
    return new StoreError('unavailable', message, { cause });
  }
}

const changes = ({ method }: StoreRequest) => method !== 'GET' && method !== 'HEAD';

async function receive(
  response: http.IncomingMessage,
  { method, path, mostBytes = MOST_BYTES }: StoreRequest,
): Promise<StoreAnswer> {
  const { headers, statusCode = 0 } = response;
  const refused = statusCode >= 300;
  const announced = Number(headers['content-length'] ?? 0);
  const parts: Buffer[] = [];
  let bytes = 0;
  if (refused || method === 'HEAD' || announced <= mostBytes) {
    for await (const part of response as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > (refused ? MOST_BYTES : mostBytes)) break;
      parts.push(part);
    }
  } else bytes = announced;
  const body = Buffer.concat(parts);
  if (refused) throw Refusal.of(statusCode, body, `${method} ${path}`);
  if (bytes <= mostBytes || method === 'HEAD') return { headers, body };
  response.destroy();
  const size = announced > 0 ? `${announced} bytes` : 'more bytes than that';
  throw new StoreError('too-large', `the object "${path.slice(1)}" has ${size}: at most ${mostBytes} are read`);
}
