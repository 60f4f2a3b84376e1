import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TEST_CERTIFICATE, TEST_KEY } from '../../src/lib/http/certificate.fixture.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { end, isRunning, Processes, type Started } from '../kubernetes/processes.ts';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { minioProgram } from './programs.ts';

/** Where MinIO sends events, by the name of the target. */
export type Hooks = Readonly<Record<string, { readonly url: string; readonly durable: boolean }>>;

export interface MinioOptions {
  readonly hooks?: Hooks;
  /** The token with which MinIO authenticates at the hooks. */
  readonly token?: string;
  /** Where its data is; a directory of its own if left out. */
  readonly data?: string;
  /** The address to listen on; loopback by default. */
  readonly host?: string;
  /** The certificate to use; `true` for a self-signed one. */
  readonly tls?: true | { readonly key: string; readonly certificate: string };
}

export const ROOT = { accessKey: new Secret('root-of-the-store'), secretKey: new Secret('root-secret-of-the-store') };

const OF_NOBODY = { key: TEST_KEY, certificate: TEST_CERTIFICATE };

export const EVENTS_TOKEN = 'token-of-the-store';

/** The two targets as an operator configures them, at this hook. */
export const bothAt = (url: string): Hooks => ({
  OSCAR_FAST: { url, durable: false },
  OSCAR_DURABLE: { url, durable: true },
});

/** A real MinIO. It can be killed, and started again with its data. */
export class Minio {
  readonly endpoint: string;
  readonly region = 'us-east-1';
  readonly #directory: string;
  readonly #processes: Processes;
  readonly #binary: string;
  readonly #options: MinioOptions;
  #hooks: Hooks;
  #running: Started | undefined;

  private constructor(binary: string, port: number, options: MinioOptions) {
    this.#binary = binary;
    this.#options = options;
    this.#hooks = options.hooks ?? {};
    this.#directory = mkdtempSync(join(tmpdir(), 'oscar-minio-'));
    this.#processes = new Processes(this.#directory);
    this.endpoint = `${options.tls ? 'https' : 'http'}://${options.host ?? '127.0.0.1'}:${port}`;
    if (options.tls) {
      const { key, certificate } = options.tls === true ? OF_NOBODY : options.tls;
      writeFileSync(join(this.#directory, 'private.key'), key);
      writeFileSync(join(this.#directory, 'public.crt'), certificate);
    }
  }

  static async start(options: MinioOptions = {}): Promise<Minio> {
    const [port = 0] = await freePorts(1);
    const minio = new Minio(await minioProgram(), port, options);
    try {
      await minio.start();
    } catch (error) {
      await minio.stop();
      throw error;
    }
    return minio;
  }

  /** The settings of a manager that uses it. */
  get settings(): Record<string, string> {
    return {
      MINIO_ENDPOINT: this.endpoint,
      MINIO_ACCESS_KEY: ROOT.accessKey.reveal(),
      MINIO_SECRET_KEY: ROOT.secretKey.reveal(),
      OSCAR_EVENTS_TOKEN: EVENTS_TOKEN,
    };
  }

  /** With its earlier targets, unless others are given. */
  async start(hooks = this.#hooks): Promise<void> {
    this.#hooks = hooks;
    const server = [
      'server',
      '--quiet',
      '--certs-dir',
      this.#directory,
      '--address',
      new URL(this.endpoint).host,
      this.#options.data ?? join(this.#directory, 'data'),
    ];
    const variables = Object.entries(this.#environment()).map(([name, value]) => `${name}=${value}`);
    const started = this.#processes.start('minio', 'env', [...variables, this.#binary, ...server]);
    this.#running = started;
    await eventually(async () => {
      if (!isRunning(started.child)) throw new Error(`MinIO ended:\n${this.#processes.logs()}`);
      if (!(await this.#isReady())) throw new Error('MinIO is not ready');
    }, 30_000);
  }

  /** The id of its process, which changes with every restart. */
  get pid(): number | undefined {
    return this.#running?.child.pid;
  }

  get isRunning(): boolean {
    return this.#running !== undefined && isRunning(this.#running.child);
  }

  /** The events that its durable target has on disk. */
  undelivered(): number {
    const directory = join(this.#directory, 'events');
    if (!existsSync(directory)) return 0;
    return readdirSync(directory, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).length;
  }

  async kill(): Promise<void> {
    if (this.#running && isRunning(this.#running.child)) await end(this.#running.child);
  }

  async stop(): Promise<void> {
    await this.#processes.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #isReady(): Promise<boolean> {
    const url = `${this.endpoint}/minio/health/ready`;
    const signal = AbortSignal.timeout(2_000);
    const asked = this.#options.tls ? https.get(url, { rejectUnauthorized: false, signal }) : http.get(url, { signal });
    const [response] = (await once(asked, 'response')) as [http.IncomingMessage];
    response.resume();
    return response.statusCode === 200;
  }

  #environment(): Record<string, string> {
    const { token = EVENTS_TOKEN } = this.#options;
    const targets = Object.entries(this.#hooks).flatMap(([name, { url, durable }]) => [
      [`MINIO_NOTIFY_WEBHOOK_ENABLE_${name}`, 'on'],
      [`MINIO_NOTIFY_WEBHOOK_ENDPOINT_${name}`, url],
      [`MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_${name}`, token],
      ...(durable ? [[`MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_${name}`, join(this.#directory, 'events')]] : []),
    ]);
    return {
      MINIO_ROOT_USER: ROOT.accessKey.reveal(),
      MINIO_ROOT_PASSWORD: ROOT.secretKey.reveal(),
      MINIO_BROWSER: 'off',
      ...Object.fromEntries(targets),
    };
  }
}
