import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { hasOwnStore, readConfig } from '../../src/config/index.ts';
import type { ServerOptions } from '../../src/http/index.ts';
import { startManager } from '../../src/manager/index.ts';

export interface TestManager extends AsyncDisposable {
  /** Its address, without a slash at the end. */
  readonly url: string;
  readonly directory: string;
  /** Does the manager run the embedded object store? */
  readonly hasStore: boolean;
  /** Calls it; `as` is the value of `Authorization`. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** Its log so far, one object per line. */
  readonly log: Record<string, unknown>[];
  stop(): Promise<void>;
}

export interface CallOptions {
  readonly as?: string;
  /** An object is sent as JSON, anything else as it is. */
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The text, parsed. */
  readonly json: () => unknown;
}

export const PASSWORD = 'correct horse';
export const ADMIN = `Basic ${Buffer.from(`oscar:${PASSWORD}`).toString('base64')}`;

export const temporaryDirectory = () => mkdtempSync(join(tmpdir(), 'oscar-test-'));

/** Settings for every manager under test: the same tests run on other backends (see test/kubernetes). */
const GIVEN = JSON.parse(process.env['OSCAR_TEST_SETTINGS'] ?? '{}') as Record<string, string>;

/** The same for single clusters, by id. They override the settings of the test. */
const GIVEN_TO = JSON.parse(process.env['OSCAR_TEST_SETTINGS_OF'] ?? '{}') as Record<string, Record<string, string>>;

/** A whole manager in this process, on a free port of loopback, with real sockets and a real data directory. */
export async function startTestManager(
  settings: Record<string, string> = {},
  directory = temporaryDirectory(),
  // Several managers and the test share this process, so its load is not that of one manager.
  load: ServerOptions['load'] = (waiting) => ({ upMs: 0, lateMs: 0, ownCpu: 0, waiting }),
): Promise<TestManager> {
  const log: Record<string, unknown>[] = [];
  const config = readConfig(
    {
      OSCAR_DATA_DIR: directory,
      OSCAR_LISTEN: '127.0.0.1:0',
      OSCAR_STORE_PORT: '0',
      OSCAR_LOCAL_RUNTIME: 'process',
      // Tests do not depend on the free space of the machine.
      OSCAR_DISK_FLOOR: '0',
      // Scripts of tests write to directories of the test, which are there.
      OSCAR_LOCAL_SHARED: tmpdir(),
      OSCAR_ALLOW_UNISOLATED_SCRIPTS: 'true',
      OSCAR_PASSWORD: PASSWORD,
      ...GIVEN,
      ...settings,
      ...GIVEN_TO[settings['OSCAR_CLUSTER_ID'] ?? ''],
    },
    () => '',
  );
  const logger = pino({ level: 'debug' }, { write: (line) => void log.push(JSON.parse(line)) });
  const manager = await startManager(config, logger, { load });
  const url = manager.address;
  return {
    url,
    directory,
    hasStore: hasOwnStore(config),
    log,
    call: (method, path, options) => call(url, method, path, options),
    stop: () => manager.stop(),
    async [Symbol.asyncDispose]() {
      await manager.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

export async function call(
  url: string,
  method: string,
  path: string,
  { as, body, headers }: CallOptions = {},
): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    redirect: 'manual',
    headers: { ...(as !== undefined && { authorization: as }), ...headers },
    ...(body !== undefined && { body: isRaw(body) ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: () => JSON.parse(text) };
}

function isRaw(body: unknown): body is string | Uint8Array<ArrayBuffer> {
  return typeof body === 'string' || body instanceof Uint8Array;
}
