import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { eventually as tried } from '../../src/ports/conformance/eventually.ts';
import { ADMIN, type Answer, call } from './manager.ts';

/** The part of a job in `/system/jobs` that tests use. */
export interface SeenJob {
  readonly id: string;
  readonly service: string;
  readonly state: string;
  readonly phase: string;
  readonly message: string;
  readonly trigger: string;
  readonly invoker?: string;
  readonly object?: { readonly bucket: string; readonly key: string };
  readonly started_at?: string;
  readonly exit_code?: number;
  readonly attempts: readonly { readonly name: string; readonly place: string; readonly epoch: number }[];
  readonly decisions: readonly SeenDecision[];
  readonly timeline: readonly {
    readonly state: string;
    readonly reason: string;
    readonly message: string;
    readonly place: string;
  }[];
}

interface SeenDecision {
  readonly policy: string;
  readonly chosen?: string;
  readonly candidates: readonly { readonly member: string; readonly score?: number; readonly refusal?: string }[];
}

export interface Provider {
  readonly endpoint: string;
  readonly access_key: string;
  readonly secret_key: string;
  readonly region: string;
}

/**
 * Milliseconds. Scripts take up to a minute on a very busy machine, and dozens of concurrent pods take longer (see
 * test/kubernetes). A larger value delays only tests that fail.
 */
const PATIENCE = Number(process.env['OSCAR_TEST_PATIENCE'] ?? 120_000);

/** Longer than within a process, because each try is a request that costs the manager time. */
const TRY_EVERY_MS = 20;

/** Repeats the check until it passes. At the deadline it throws the last error of the check. */
export const eventually = <T>(check: () => T | Promise<T>, deadline = PATIENCE): Promise<T> =>
  tried(check, deadline, TRY_EVERY_MS);

const FINAL = new Set(['succeeded', 'failed', 'cancelled']);

export const reasonOf = (job: SeenJob) => job.timeline.at(-1)?.reason;

/** The key of the object that caused the job. */
export const keyOf = ({ object }: SeenJob) => object?.key ?? '';

export type TestDefinition = Record<string, unknown> & { readonly name: string };

/** If the backend uses images: an image with the programs that the scripts of tests need (see test/kubernetes). */
const IMAGE = process.env['OSCAR_TEST_IMAGE'] ?? 'not-used';

/** A regular expression for the first line of every log if the backend uses no images. */
export const LOG_BEGINS = IMAGE === 'not-used' ? String.raw`oscar: .*plain processes.*\n` : '';

/** A service that reads `<name>/in` and writes `<name>/out`. */
export function service(name: string, script: string, more: Record<string, unknown> = {}): TestDefinition {
  return {
    name,
    image: IMAGE,
    cpu: '0.1',
    memory: '128Mi',
    script: `#!/bin/sh\n${script}\n`,
    input: [{ storage_provider: 'minio.default', path: `${name}/in` }],
    output: [{ storage_provider: 'minio.default', path: `${name}/out` }],
    ...more,
  };
}

/** A cluster as its users access it: HTTP and S3, nothing else. */
export class Outside {
  readonly #url: () => string;
  readonly #clients = new Map<string, Promise<S3Client>>();

  /** The address is read for each request: a manager that was killed restarts at another address. */
  constructor(url: string | (() => string)) {
    this.#url = typeof url === 'string' ? () => url : url;
  }

  call(method: string, path: string, options: Parameters<typeof call>[3] = {}): Promise<Answer> {
    return call(this.#url(), method, path, options);
  }

  /** Resolves to the token of the service, as `Authorization`. */
  async create(as: string, definition: TestDefinition): Promise<string> {
    const { status, text } = await this.call('POST', '/system/services', { as, body: definition });
    assert.equal(status, 201, text);
    const read = await this.call('GET', `/system/services/${definition.name}`, { as });
    return `Bearer ${(read.json() as { token: string }).token}`;
  }

  /** Sends an event to `/job`. Resolves to the id of the job. */
  async submit(as: string, name: string, body: unknown): Promise<string> {
    const { status, headers, text } = await this.call('POST', `/job/${name}`, { as, body });
    assert.equal(status, 201, text);
    return headers.get('x-oscar-job-id') ?? '';
  }

  async provider(as: string): Promise<Provider> {
    const { json } = await this.call('GET', '/system/config', { as });
    return (json() as { minio_provider: Provider }).minio_provider;
  }

  s3(as: string): Promise<S3Client> {
    const known = this.#clients.get(as) ?? this.provider(as).then(clientOf);
    this.#clients.set(as, known);
    return known;
  }

  async put(as: string, path: string, body: string | Uint8Array): Promise<void> {
    await (await this.s3(as)).send(new PutObjectCommand({ ...placeOf(path), Body: body }));
  }

  /** The content of an object; undefined if it does not exist. */
  async get(as: string, path: string): Promise<string | undefined> {
    try {
      const { Body } = await (await this.s3(as)).send(new GetObjectCommand(placeOf(path)));
      return await Body?.transformToString();
    } catch (error) {
      if (error instanceof S3ServiceException && error.name === 'NoSuchKey') return undefined;
      throw error;
    }
  }

  /** The keys of a bucket, folders left out. */
  async keys(as: string, bucket: string): Promise<string[]> {
    const { Contents = [] } = await (await this.s3(as)).send(new ListObjectsV2Command({ Bucket: bucket }));
    return Contents.map(({ Key = '' }) => Key).filter((key) => !key.endsWith('/'));
  }

  /** Newest first. */
  async jobs(as: string, name: string): Promise<SeenJob[]> {
    const found: SeenJob[] = [];
    for (let page = ''; ; ) {
      const { status, text, json } = await this.call('GET', `/system/jobs/${name}?page=${page}`, { as });
      assert.equal(status, 200, text);
      const { jobs, next_page } = json() as { jobs: SeenJob[]; next_page?: string };
      found.push(...jobs);
      if (next_page === undefined) return found;
      page = encodeURIComponent(next_page);
    }
  }

  async job(as: string, name: string, id: string): Promise<SeenJob> {
    const { status, text, json } = await this.call('GET', `/system/jobs/${name}/${id}`, { as });
    assert.equal(status, 200, text);
    return json() as SeenJob;
  }

  /** The job with this id, once its script runs. */
  running(as: string, name: string, id: string): Promise<SeenJob> {
    return eventually(async () => {
      const job = await this.job(as, name, id);
      assert.equal(job.message, 'the script runs');
      return job;
    });
  }

  /** The job with this id, once it is in a final state. */
  ended(name: string, id: string, as = ADMIN): Promise<SeenJob> {
    return eventually(async () => {
      const job = await this.job(as, name, id);
      assert.ok(FINAL.has(job.state), `${id} is ${job.state}: ${job.message}`);
      return job;
    });
  }

  /** All jobs of a service, once there are that many and all have ended. */
  allEnded(name: string, count: number, deadline = PATIENCE): Promise<SeenJob[]> {
    return eventually(async () => {
      const jobs = await this.jobs(ADMIN, name);
      const ended = jobs.filter(({ state }) => FINAL.has(state));
      assert.equal(ended.length, count, `${ended.length} of ${jobs.length} jobs of ${name} have ended, not ${count}`);
      assert.equal(jobs.length, count);
      return jobs;
    }, deadline);
  }

  /** The only job of a service, once it is in a final state. */
  async onlyJob(name: string): Promise<SeenJob> {
    const [job] = await this.allEnded(name, 1);
    assert.ok(job);
    return job;
  }

  async log(name: string, id: string, query = ''): Promise<string> {
    return (await this.call('GET', `/system/logs/${name}/${id}${query}`, { as: ADMIN })).text;
  }
}

export function clientOf({ endpoint, region, access_key, secret_key }: Provider): S3Client {
  const credentials = { accessKeyId: access_key, secretAccessKey: secret_key };
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials });
}

function placeOf(path: string): { Bucket: string; Key: string } {
  const slash = path.indexOf('/');
  return { Bucket: path.slice(0, slash), Key: path.slice(slash + 1) };
}

/** Does a process with this id run? */
export function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // A zombie does not run.
    return !existsSync('/proc/self/stat') || !/^\d+ \(.*\) Z/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/**
 * Which process of this machine a script means by a process id, which may be one of its namespace. Ids that scripts sent over the
 * network were translated by the receiver.
 */
export function findHostPid(pid: number, variable: string): number {
  if (FAR !== undefined || !existsSync('/proc/self/stat')) return pid;
  const found = readdirSync('/proc').find((each) => {
    try {
      const inside = /^NSpid:.*\s(\d+)$/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'))?.[1];
      return Number(inside) === pid && readFileSync(`/proc/${each}/environ`, 'utf8').includes(variable);
    } catch {
      return false;
    }
  });
  assert.ok(found, `no process has the id ${pid} and ${variable}`);
  return Number(found);
}

/** Does a process run whose command mentions this text? */
export function isMentioned(text: string): boolean {
  return readdirSync('/proc').some((each) => {
    try {
      return readFileSync(`/proc/${each}/cmdline`, 'utf8').includes(text);
    } catch {
      return false;
    }
  });
}

/** Address and port for scripts that cannot access the files of this machine (see test/kubernetes). */
const FAR = process.env['OSCAR_TEST_MEETING'];

/** A directory that scripts of any user can write to, by which a script and a test exchange messages. */
export class Meeting implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'oscar-meeting-'));

  constructor() {
    chmodSync(this.directory, 0o777);
  }

  /** Shell commands that wait until the test lets the script continue, or ends. */
  wait(name: string): string {
    const file = `${this.directory}/${name}`;
    return this.#orFromAfar(`while [ -d ${this.directory} ] && [ ! -e ${file} ]; do sleep 0.05; done`, `is - ${file}`);
  }

  letGo(name: string): void {
    writeFileSync(join(this.directory, name), '');
  }

  /** Shell commands that write a message atomically. */
  say(name: string, words: string): string {
    const file = `${this.directory}/${name}`;
    return this.#orFromAfar(`echo "${words}" >${file}.new; mv ${file}.new ${file}`, `say $JOB_UUID ${file} ${words}`);
  }

  /** Shell commands that poll over the network if the script cannot access the directory. */
  #orFromAfar(here: string, question: string): string {
    if (FAR === undefined) return here;
    const there = `until [ "$(echo "${question}" | nc ${FAR})" = yes ]; do sleep 0.3; done`;
    return `if [ -d ${this.directory} ]; then ${here}; else ${there}; fi`;
  }

  /** The message that a script has written under this name, once it exists. */
  heard(name: string): Promise<string> {
    return eventually(() => readFileSync(join(this.directory, name), 'utf8').trim());
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}
