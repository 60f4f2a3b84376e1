import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { Agent } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import * as s3 from '@aws-sdk/client-s3';
import { Seal, Secret } from '../src/lib/secret.ts';
import { openObjectStore } from '../src/s3-server/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { interleaved, repeated } from './support/interleaved.ts';

export const description = 'the embedded object store, by aws-sdk with its defaults, beside MinIO where there is one';

/** `OSCAR_BENCH_MINIO`, or `minio` on the path. */
const minio = [
  process.env['OSCAR_BENCH_MINIO'],
  ...(process.env['PATH'] ?? '').split(delimiter).map((each) => join(each, 'minio')),
]
  .filter((each) => each !== undefined)
  .find(isProgram);

/** Without MinIO there is nothing to compare with, and so nothing to reach. */
const ratio = (what: string): Figure => ({
  what: `… ${what}, of what MinIO does`,
  unit: '%',
  ...(minio !== undefined && { reach: ['≥', 100] }),
});

export const figures = {
  putSmall: { what: 'PUT 4 KB, 16 in flight', unit: '/s' },
  putSmallRatio: ratio('PUT 4 KB'),
  getSmall: { what: 'GET 4 KB, 16 in flight', unit: '/s' },
  getSmallRatio: ratio('GET 4 KB'),
  putLarge: { what: 'PUT 64 MB, 2 in flight, in a second', unit: 'MB' },
  putLargeRatio: ratio('PUT 64 MB'),
  getLarge: { what: 'GET 64 MB, 2 in flight, in a second', unit: 'MB' },
  getLargeRatio: ratio('GET 64 MB'),
  list: { what: 'list 1,000 of 100,000 keys, and read the answer', unit: 'ms' },
} satisfies Record<string, Figure>;

/** Those of the store's process. */
const KEYS = { accessKeyId: 'oscar-manager', secretAccessKey: 'manager-secret-1' };
const Bucket = 'bench';

const SMALL = { size: 4096, count: 800, ways: 16 };
const LARGE = { size: 64_000_000, count: 6, ways: 2 };
const LISTED = 100_000;

type Work = (client: s3.S3Client) => Promise<number>;

export async function run(): Promise<Measured<typeof figures>> {
  await using embedded = await startEmbedded();
  await using other = minio === undefined ? undefined : await startMinio(minio);
  const compare = async (work: Work) => {
    const ours = () => work(embedded.client);
    if (!other) return { rate: await repeated(ours), percent: Number.NaN };
    const { second, ratio: times } = await interleaved(() => work(other.client), ours);
    return { rate: second, percent: times * 100 };
  };
  const small = randomBytes(SMALL.size);
  const large = randomBytes(LARGE.size);
  const megabytes = LARGE.size / 1e6;
  const putSmall = await compare((client) => rate(SMALL, (n) => put(client, `small/${n}`, small)));
  const getSmall = await compare((client) => rate(SMALL, (n) => get(client, `small/${n}`, SMALL.size)));
  const putLarge = await compare((client) => rate(LARGE, (n) => put(client, `large/${n}`, large)));
  const getLarge = await compare((client) => rate(LARGE, (n) => get(client, `large/${n}`, LARGE.size)));
  await using full = await startEmbedded(LISTED);
  return {
    putSmall: putSmall.rate,
    putSmallRatio: putSmall.percent,
    getSmall: getSmall.rate,
    getSmallRatio: getSmall.percent,
    putLarge: putLarge.rate * megabytes,
    putLargeRatio: putLarge.percent,
    getLarge: getLarge.rate * megabytes,
    getLargeRatio: getLarge.percent,
    list: await repeated(() => timeToList(full.client)),
  };
}

/** How many in a second. */
async function rate(
  { count, ways }: { count: number; ways: number },
  work: (n: number) => Promise<void>,
): Promise<number> {
  let next = 0;
  const begun = performance.now();
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: ways }, worker));
  return count / ((performance.now() - begun) / 1000);
}

async function put(client: s3.S3Client, Key: string, Body: Buffer): Promise<void> {
  await client.send(new s3.PutObjectCommand({ Bucket, Key, Body }));
}

async function get(client: s3.S3Client, Key: string, size: number): Promise<void> {
  const { Body } = await client.send(new s3.GetObjectCommand({ Bucket, Key }));
  let received = 0;
  for await (const chunk of Body as AsyncIterable<Buffer>) received += chunk.length;
  if (received !== size) throw new Error(`${Key} has ${received} bytes instead of ${size}`);
}

async function timeToList(client: s3.S3Client): Promise<number> {
  const begun = performance.now();
  const { KeyCount } = await client.send(
    new s3.ListObjectsV2Command({ Bucket, Prefix: 'list/', StartAfter: 'list/5' }),
  );
  if (KeyCount !== 1000) throw new Error(`${KeyCount} keys were listed`);
  return performance.now() - begun;
}

interface Store extends AsyncDisposable {
  readonly client: s3.S3Client;
}

/** The embedded store in a process of its own, as the tests run it. */
async function startEmbedded(objects = 0): Promise<Store> {
  return start(async (directory) => {
    if (objects > 0) await fill(directory, objects);
    const program = join(import.meta.dirname, '..', 'src', 'objectstore', 'serve.child.ts');
    const child = spawn(process.execPath, [program, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [port] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
    return { child, port: Number(port) };
  });
}

/** Puts so many objects into a store that is not served yet. */
async function fill(directory: string, objects: number): Promise<void> {
  const store = openObjectStore({
    directory,
    region: 'us-east-1',
    manager: { accessKey: KEYS.accessKeyId, secret: new Secret(KEYS.secretAccessKey) },
    seal: new Seal(Buffer.alloc(32, 7)),
  });
  await store.createBucket({ name: Bucket, owner: KEYS.accessKeyId });
  const content = Buffer.from('x');
  await rate({ count: objects, ways: 500 }, async (n) => {
    await store.putObject({ bucket: Bucket, key: `list/${n}` }, content);
  });
  await store.close();
}

async function startMinio(program: string): Promise<Store> {
  return start(async (directory) => {
    const port = await freePort();
    const env = { MINIO_ROOT_USER: KEYS.accessKeyId, MINIO_ROOT_PASSWORD: KEYS.secretAccessKey, HOME: directory };
    const child = spawn(program, ['server', '--address', `127.0.0.1:${port}`, directory], { env, stdio: 'ignore' });
    return { child, port };
  });
}

async function start(begin: (directory: string) => Promise<{ child: ChildProcess; port: number }>): Promise<Store> {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  const { child, port } = await begin(directory);
  const client = new s3.S3Client({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: KEYS,
    requestHandler: { httpAgent: new Agent({ keepAlive: true, maxSockets: 64 }) },
  });
  await bucketMade(client);
  return {
    client,
    async [Symbol.asyncDispose]() {
      client.destroy();
      const ended = once(child, 'exit');
      child.kill();
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A store that takes longer than this to start has failed. */
const START_DEADLINE = 30_000;

async function bucketMade(client: s3.S3Client): Promise<void> {
  const end = performance.now() + START_DEADLINE;
  for (;;) {
    try {
      await client.send(new s3.CreateBucketCommand({ Bucket }));
      return;
    } catch (error) {
      if (error instanceof s3.BucketAlreadyOwnedByYou) return;
      if (performance.now() > end) throw error;
    }
    await pause(50);
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address ? address.port : 0;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
