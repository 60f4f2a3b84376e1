import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { DelegationServer } from '../delegation/index.ts';
import type { Coordination } from '../federation/index.ts';
import { IdentityError } from '../identity/errors.ts';
import { createAuthenticator, type User } from '../identity/index.ts';
import { ALICE, BOB, openJobs, type PuppetRunner, type TestJobs } from '../jobs/jobs.fixture.ts';
import { Secret } from '../lib/secret.ts';
import type { JobKey } from '../model/job/index.ts';
import { type LogOptions, StoreError } from '../ports/index.ts';
import type { Services } from '../services/index.ts';
import { CLUSTER_CONFIG } from './routes/cluster-config.fixture.ts';
import { createServer } from './server.ts';

export const CAROL = 'carol-00003';
export const OPERATOR = 'olga-000004';

const PEOPLE = new Map([ALICE, BOB, CAROL, OPERATOR].map((uid) => [`jwt-of-${uid}`, personOf(uid)]));

export function personOf(uid: string): User {
  return { kind: 'user', uid, name: uid, groups: [], operator: uid === OPERATOR };
}

/** Values of `Authorization`. */
export const ADMIN = `Basic ${Buffer.from('oscar:correct horse').toString('base64')}`;
export const TOKEN = `Bearer ${'f'.repeat(64)}`;
export const by = (uid: string) => `Bearer jwt-of-${uid}`;

export interface CallOptions {
  readonly as?: string;
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface JobsServer extends AsyncDisposable {
  readonly jobs: TestJobs;
  readonly url: string;
  /** Prints a line, as the script of this attempt would. */
  print(attempt: string, line: string): void;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** The same, with the body still to be read. */
  open(method: string, path: string, options?: CallOptions): Promise<Response>;
  /** Invokes a service as this caller, and waits until its script runs. */
  running(service: string, as?: string): Promise<JobKey>;
  /** The same, and ends it. */
  ended(service: string, as?: string): Promise<JobKey>;
  stop(): Promise<void>;
}

export interface JobsServerOptions {
  readonly runTimeoutMs?: number;
  readonly pageSize?: number;
  readonly cpu?: number;
  readonly delegation?: DelegationServer;
}

/** The whole HTTP surface on a real socket and real records; scripts are played by the test. */
export async function startJobsServer(options: JobsServerOptions = {}): Promise<JobsServer> {
  const jobs = await openJobs(options.cpu ?? 100_000);
  const printed = new Map<string, string[]>();
  Object.assign(jobs.runner, { logs: logsOf(jobs.runner, printed) });
  const named = { servicesNamespace: 'oscar-svc', managerName: 'oscar', now: Date.now };
  const catalog = { ...jobs.cluster, ...named } as unknown as Services;
  const app = await createServer({
    ...SURROUNDINGS,
    catalog,
    federations: { coordination: catalog as unknown as Coordination, workers: { catalog, instance: '' } },
    jobs,
    delegation: options.delegation,
    runTimeoutMs: options.runTimeoutMs ?? 60_000,
    pageSize: options.pageSize ?? 70,
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  const server: JobsServer = {
    jobs,
    url,
    print: (attempt, line) => void printed.set(attempt, [...(printed.get(attempt) ?? []), line]),
    open: (method, path, call) => open(url, method, path, call),
    call: async (method, path, call) => read(await open(url, method, path, call)),
    async running(service, as = TOKEN) {
      const { status, headers } = await server.call('POST', `/job/${service}`, { as, body: '{}' });
      if (status !== 201) throw new Error(`/job answered ${status}`);
      const key = { service, id: headers.get('x-oscar-job-id') ?? '' };
      while ((await jobs.store.get(key))?.startedAt === undefined) await pause(2);
      return key;
    },
    async ended(service, as) {
      const key = await server.running(service, as);
      jobs.runner.end(key.id);
      await jobs.until(key, 'succeeded');
      return key;
    },
    stop: () => app.close(),
    async [Symbol.asyncDispose]() {
      app.server.closeAllConnections();
      await app.close();
      await jobs[Symbol.asyncDispose]();
    },
  };
  return server;
}

const SURROUNDINGS = {
  authenticator: createAuthenticator({
    admin: { username: 'oscar', password: new Secret('correct horse') },
    oidc: {
      async verify(token) {
        const person = PEOPLE.get(token);
        if (!person) throw new IdentityError('bad-token', 'nobody knows this token');
        return person;
      },
    },
  }),
  store: { endpoint: '', verify: true, region: '' },
  keysOf: () => Promise.reject(new Error('not used for the document')),
  rotateKeys: () => Promise.reject(new Error('not used for the document')),
  info: {
    version: 'test',
    git_commit: '',
    architecture: '',
    kubernetes_version: '',
    manager_version: 'test',
    manager_commit: '',
  },
  clusterConfig: CLUSTER_CONFIG,
  corsOrigins: [],
  readTimeoutMs: 60_000,
};

function open(url: string, method: string, path: string, { as, body, headers, signal }: CallOptions = {}) {
  return fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(as !== undefined && { authorization: as }), ...headers },
    ...(body !== undefined && { body, duplex: 'half' }),
    ...(signal && { signal }),
  });
}

async function read(response: Response): Promise<Answer> {
  return { status: response.status, headers: response.headers, text: await response.text() };
}

function logsOf(runner: PuppetRunner, printed: ReadonlyMap<string, string[]>) {
  return async function* logs(name: string, { timestamps, follow, signal }: LogOptions) {
    if (!runner.attempts.has(name)) throw new StoreError('absent', `there is no attempt ${name}`);
    for (let shown = 0; ; ) {
      const ended = runner.attempts.get(name)?.seen.phase === 'ended';
      for (const line of printed.get(name)?.slice(shown) ?? []) {
        shown += 1;
        yield Buffer.from(`${timestamps ? '2026-11-16T02:00:00.000000000Z ' : ''}${line}\n`);
      }
      if (!follow || ended || signal?.aborted) return;
      await pause(2);
    }
  };
}

/** What comes over a stream, as far as it is asked for. */
export class Incoming {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  text = '';

  constructor(response: Response) {
    if (!response.body) throw new Error('there is no body');
    this.#reader = response.body.getReader();
  }

  /** Everything that has come by the time that this is in it. */
  async until(wanted: string | RegExp): Promise<string> {
    const isThere = () => (typeof wanted === 'string' ? this.text.includes(wanted) : wanted.test(this.text));
    while (!isThere()) {
      const { done, value } = await this.#reader.read();
      if (done) throw new Error(`it ended without ${wanted}: ${this.text}`);
      this.text += this.#decoder.decode(value, { stream: true });
    }
    return this.text;
  }

  async toEnd(): Promise<string> {
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return this.text;
      this.text += this.#decoder.decode(value, { stream: true });
    }
  }

  leave(): Promise<void> {
    return this.#reader.cancel();
  }
}
