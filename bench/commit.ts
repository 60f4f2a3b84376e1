import { hash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EmbeddedStore } from '../src/adapters/object-stores/embedded/index.ts';
import { openLocalCluster } from '../src/adapters/sqlite/index.ts';
import { commit } from '../src/delegation/index.ts';
import type { CommitDeps } from '../src/delegation/origin/commit.ts';
import { stagingArea, sweepStaging } from '../src/delegation/origin/staging-area.ts';
import { Seal, Secret } from '../src/lib/secret.ts';
import { writeManifest } from '../src/model/job/index.ts';
import { aService } from '../src/model/service/service.fixture.ts';
import { type ObjectStoreServer, openObjectStore } from '../src/s3-server/index.ts';
import type { Figure, Measured } from './support/benchmark.ts';
import { interleaved } from './support/interleaved.ts';

export const description = 'what it costs to bring the results of another cluster to their places';

export const figures = {
  many: { what: 'commit a job with 1,000 output files, each of them', unit: 'ms' },
  manyBare: { what: '… a bare server-side copy, 64 at once', unit: 'ms' },
  manyRatio: { what: '… of the bare copy', unit: '%', reach: ['≤', 200] },
  one: { what: 'commit a job with one output file', unit: 'ms' },
  oneBare: { what: '… a bare server-side copy', unit: 'ms' },
  oneRatio: { what: '… of the bare copy', unit: '%' },
} satisfies Record<string, Figure>;

const MANY = 1_000;

/** Jobs with one file that are committed one after the other. */
const TURNS = 100;

/** As a commit has under way at once. */
const AT_ONCE = 64;

const BUCKET = 'results';
const OWNER = 'bench';

export async function run(): Promise<Measured<typeof figures>> {
  await using place = await openPlace();
  const many = await interleaved(
    async () => (await place.copied(MANY, 1)) / MANY,
    async () => (await place.committed(MANY, 1)) / MANY,
  );
  const one = await interleaved(
    async () => (await place.copied(1, TURNS)) / TURNS,
    async () => (await place.committed(1, TURNS)) / TURNS,
  );
  return {
    many: many.second,
    manyBare: many.first,
    manyRatio: many.ratio * 100,
    one: one.second,
    oneBare: one.first,
    oneRatio: one.ratio * 100,
  };
}

interface Job {
  readonly key: { readonly service: string; readonly id: string };
  readonly names: readonly string[];
  readonly manifest: string;
}

async function openPlace() {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-bench-'));
  const cluster = openLocalCluster({ directory: join(directory, 'cluster') });
  const server = openObjectStore({
    directory: join(directory, 'objects'),
    region: 'us-east-1',
    manager: { accessKey: 'manager', secret: new Secret('manager-secret') },
    seal: new Seal(Buffer.alloc(32, 7)),
  });
  const endpoint = 'http://127.0.0.1:9000';
  const objects = new EmbeddedStore({ server, endpoint });
  await objects.ensureStaging();
  await server.createBucket({ name: BUCKET, owner: OWNER });
  // An event of each file is part of what is measured.
  await server.putRule(BUCKET, { id: 'all', prefix: '' });
  const deps: CommitDeps = {
    secrets: cluster.secrets,
    objects,
    ownStore: { endpoint, region: 'us-east-1', verify: true },
    namedStores: new Map(),
    staging: { fetch: unused, upload: unused },
    directory: join(directory, 'way'),
  };
  const output = [{ storage_provider: 'minio', path: `${BUCKET}/out` }];
  const service = aService({ name: 'bench', output }, { owner: OWNER });

  /** Milliseconds for all jobs, one after the other. They are staged before and swept after. */
  const timed = async (files: number, jobs: number, work: (job: Job) => Promise<void>) => {
    const staged = await Promise.all(Array.from({ length: jobs }, () => stage(server, objects, files)));
    const begun = performance.now();
    for (const job of staged) await work(job);
    const taken = performance.now() - begun;
    for (const { key } of staged) await sweepStaging(key, objects);
    await objects.removeObjects(BUCKET, '');
    await server.ackEvents(Number.MAX_SAFE_INTEGER);
    return taken;
  };

  return {
    committed: (files: number, jobs: number) =>
      timed(files, jobs, async ({ key, manifest }) => {
        const record = { ...key, principal: OWNER, epoch: 1 };
        const { outcome } = await commit({ service, record, manifest }, deps);
        if (outcome !== 'committed') throw new Error('a job was not committed');
      }),
    copied: (files: number, jobs: number) =>
      timed(files, jobs, async ({ key, names }) => {
        const { bucket, files: folder } = stagingArea(key, 1, deps.objects);
        const waiting = names.values();
        const worker = async () => {
          for (const name of waiting) {
            await server.copyObject({ bucket, key: `${folder}${name}` }, { bucket: BUCKET, key: `out/${name}` });
          }
        };
        await Promise.all(Array.from({ length: AT_ONCE }, worker));
      }),
    async [Symbol.asyncDispose]() {
      await server.close();
      await cluster.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** What a target leaves: so many files of 4 KB, and the list of them. */
async function stage(server: ObjectStoreServer, objects: EmbeddedStore, files: number): Promise<Job> {
  const key = { service: 'bench', id: `bench-${randomUUID()}` };
  const { bucket, files: folder, manifest } = stagingArea(key, 1, objects);
  const names = Array.from({ length: files }, (_, n) => `${n}.bin`);
  const list = await Promise.all(
    names.map(async (name) => {
      const { size, eTag } = await server.putObject({ bucket, key: `${folder}${name}` }, randomBytes(4096));
      return { name, size, etag: eTag };
    }),
  );
  const bytes = writeManifest(list);
  await server.putObject({ bucket, key: manifest }, bytes);
  return { key, names, manifest: hash('sha256', bytes) };
}

const unused = () => Promise.reject(new Error('all results stay in our own store'));
