import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { EmbeddedStore } from '../../adapters/object-stores/embedded/index.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { Service } from '../../model/service/index.ts';
import { aService } from '../../model/service/service.fixture.ts';
import { type ObjectStoreServer, openObjectStore } from '../../s3-server/index.ts';
import { createTransfers } from '../../staging/transfers/transfers.ts';
import { type CommitDeps, type CommitOrder, type CommitResult, commit } from './commit.ts';
import { stagingArea } from './staging-area.ts';

type Context = Pick<TestContext, 'after'>;

/** Does not encrypt: these tests are not about sealing. */
const seal = { seal: (text: string) => Buffer.from(text), open: (bytes: Uint8Array) => Buffer.from(bytes).toString() };

export const ALICE = 'alice-0001';
export const BOB = 'bob-000002';

export function scratch(t: Context): string {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-commit-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A store with an S3 endpoint, and helpers to inspect it. */
export class TestStore {
  readonly server: ObjectStoreServer;
  readonly endpoint: string;

  constructor(server: ObjectStoreServer, endpoint: string) {
    this.server = server;
    this.endpoint = endpoint;
  }

  /** Creates a bucket in which every new object causes an event. */
  async bucket(name: string, owner = ALICE): Promise<void> {
    await this.server.createBucket({ name, owner });
    await this.server.putRule(name, { id: 'all', prefix: '' });
  }

  /** Creates the bucket again, empty and without events. */
  async emptied(name: string): Promise<void> {
    if (this.server.describeBucket(name)) await this.server.deleteBucket(name, { withContent: true });
    await this.bucket(name);
    await this.server.ackEvents(Number.MAX_SAFE_INTEGER);
  }

  /** The keys, contents and marks of the objects in a bucket. */
  async content(bucket: string): Promise<Record<string, string>> {
    const { objects } = this.server.listObjects(bucket, { limit: 1000 });
    const entries = objects.map(async ({ key, headers }) => {
      const bytes = Buffer.concat(await this.server.readObject({ bucket, key }).stream.toArray());
      return [key, `${bytes.toString()} by ${headers['x-amz-meta-oscar-attempt'] ?? 'somebody'}`] as const;
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  /** All writes in order: `<bucket>/<key> <principal>`. */
  events(): string[] {
    return this.server.takeEvents(10_000).map(({ event }) => {
      const { Key, Records } = JSON.parse(event);
      return `${Key} ${Records[0].userIdentity.principalId}`;
    });
  }
}

export const MANAGER = { accessKey: 'manager', secret: new Secret('manager-secret') };

export async function openStore(t: Context): Promise<TestStore> {
  const server = openObjectStore({ directory: scratch(t), region: 'us-east-1', manager: MANAGER, seal });
  t.after(() => server.close());
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  return new TestStore(server, `http://127.0.0.1:${port}`);
}

export interface Scene {
  readonly store: TestStore;
  readonly deps: CommitDeps;
  readonly service: Service;
  readonly record: CommitOrder['record'];
  /** Uploads these files below the staging prefix and then the manifest, as the target does. */
  readonly stage: (files: Readonly<Record<string, string>>, epoch?: number) => Promise<string>;
  readonly commit: (manifest: string, more?: Partial<CommitOrder & CommitDeps>) => Promise<CommitResult>;
}

/** A job of Alice's service that Bob triggered, with an attempt of epoch 3 on another cluster. */
export async function scene(
  t: Context,
  output: readonly object[],
  more: { readonly definition?: object; readonly namedStores?: CommitDeps['namedStores'] } = {},
): Promise<Scene> {
  const store = await openStore(t);
  const cluster = openLocalCluster({ directory: scratch(t) });
  t.after(() => cluster.close());
  const staging = createTransfers([]);
  t.after(() => staging.close());
  const ownStore = { endpoint: store.endpoint, region: 'us-east-1', verify: true };
  const deps: CommitDeps = {
    secrets: cluster.secrets,
    objects: new EmbeddedStore({ server: store.server, endpoint: store.endpoint }),
    ownStore,
    namedStores: more.namedStores ?? new Map(),
    staging,
    directory: join(scratch(t), 'on-their-way'),
  };
  await deps.objects.ensureStaging();
  const service = aService({ name: 'svc', output, ...more.definition }, { owner: ALICE });
  const record = { service: 'svc', id: 'svc-job-1', principal: BOB, epoch: 3 };

  const stage: Scene['stage'] = async (files, epoch = record.epoch) => {
    const { bucket, prefix, files: folder, manifest } = stagingArea(record, epoch, deps.objects);
    const below = [{ bucket, prefix }];
    const keys = await deps.objects.issue({ read: [], readUnder: below, write: below }, 900, BOB);
    const { accessKey, secretKey, sessionToken } = keys;
    const access = { type: 's3', ...ownStore, accessKey, secretKey, sessionToken, guarded: false } as const;
    const directory = scratch(t);
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(join(directory, dirname(name)), { recursive: true });
      writeFileSync(join(directory, name), content);
    }
    const all = { store: 'origin', bucket, folder: folder.slice(0, -1), prefix: [], suffix: [] };
    const plan = await staging.plan(directory, [all]);
    const digest = await staging.upload({
      directory,
      files: plan.files,
      stores: new Map([['origin', access]]),
      attempt: `attempt-${epoch}`,
      resumed: false,
      manifest: { store: 'origin', bucket, key: manifest },
    });
    assert.ok(digest);
    return digest;
  };

  return {
    store,
    deps,
    service,
    record,
    stage,
    commit(manifest, given = {}) {
      return commit({ service, record, manifest, ...given }, { ...deps, ...given });
    },
  };
}
