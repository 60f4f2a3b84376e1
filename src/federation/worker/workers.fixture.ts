import { hash, randomBytes, randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { EmbeddedStore } from '../../adapters/object-stores/embedded/index.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { newServiceToken, UserNames } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import { memberKeyId, type WorkerOrder } from '../../peers/index.ts';
import { RESERVATION_LIFETIME } from '../../ports/index.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { createService, recoverServices, type Services } from '../../services/index.ts';
import { alice, body } from '../../services/services.fixture.ts';
import { recoverWorkers } from './recover-workers.ts';
import type { Workers } from './worker-role.ts';

export const NAME = 'demo';

/** A service with everything that an adoption must save. */
export const OWN = body({
  script: 'echo own',
  cpu: '1',
  input: [{ storage_provider: 'minio.default', path: 'demo/in' }],
  output: [
    { storage_provider: 'minio.default', path: 'demo/out' },
    { storage_provider: 'webdav.lab', path: 'results' },
  ],
  environment: { variables: { V: '1' }, secrets: { PASSWORD: 'own-password', KEPT: 'own-kept' } },
  storage_providers: { webdav: { lab: { hostname: 'dav.example', login: 'me', password: 'own-dav' } } },
  annotations: { note: 'mine' },
});

/** What a coordinator sends. `minio.elsewhere` is a provider that only its cluster has. */
export const WORKER = {
  ...body({
    script: 'echo worker',
    cluster_id: 'b',
    input: [{ storage_provider: 'minio.default', path: 'origin/in' }],
    output: [{ storage_provider: 'minio.elsewhere', path: 'origin/out' }],
    environment: { secrets: { PASSWORD: 'worker-password', EXTRA: 'worker-extra' } },
    federation: {
      group_id: 'origin',
      topology: 'mesh',
      members: [{ cluster_id: 'a', service_name: 'origin' }],
    },
    annotations: { 'oscar.grycap/federation-worker': 'true' },
  }),
  token: 'f'.repeat(64),
  owner: 'somebody',
  namespace: 'kube-system',
};

export type Order = WorkerOrder & { readonly keyId: string };

/** A new order of a new federation, unless the arguments say otherwise. */
export function order(changes: Partial<WorkerOrder> = {}, document: object = WORKER): Order {
  const text = JSON.stringify(document);
  const made = {
    name: NAME,
    uid: randomUUID(),
    revision: 1,
    member: `b/${NAME}`,
    key: new Secret(randomBytes(32).toString('hex')),
    origin: { clusterId: 'a', service: 'origin', endpoint: 'https://a.example', store: 'https://s.example' },
    body: new Secret(text),
    digest: hash('sha256', text, 'hex'),
    ...changes,
  };
  return { ...made, keyId: memberKeyId(made.key) };
}

/** The order for a later revision of the same member. */
export const later = (first: Order, changes: Partial<WorkerOrder>, document: object): Order =>
  order({ uid: first.uid, key: first.key, ...changes }, document);

export type Scene = ReturnType<typeof openScene>;

/**
 * A manager with a real database and a real object store. Every key counts as announced by a probe, unless the test is about
 * that.
 */
export function openScene({ announced = true }: { readonly announced?: boolean } = {}) {
  const directory = makeTemporaryDirectory();
  const clock = { now: Date.UTC(2026, 0, 1) };
  const now = () => clock.now;
  const cluster = openLocalCluster({ directory, now });
  const server = openObjectStore({
    directory: join(directory, 'objects'),
    region: 'us-east-1',
    manager: { accessKey: 'oscar', secret: new Secret('manager-secret') },
    seal: cluster.seal,
    now,
  });
  const objects = new EmbeddedStore({ server, endpoint: 'http://127.0.0.1' });
  const forgotten: string[] = [];
  const catalog: Services = {
    ...cluster,
    ...(announced && { journal: withAnnouncedKeys(cluster.journal) }),
    objects,
    forgetJobs: async (uid) => void forgotten.push(uid),
    stores: { named: new Set(), endpoint: 'http://store.example' },
    servicesNamespace: 'oscar-svc',
    managerName: 'oscar',
    allowedGroups: ['/oscar'],
    users: new UserNames({ issuers: [] }),
    now,
    newUid: randomUUID,
    newToken: newServiceToken,
  };
  const workers: Workers = { catalog, instance: 'this-cluster' };
  return {
    catalog,
    workers,
    server,
    objects,
    clock,
    /** Uids of services whose jobs were ended. */
    forgotten,
    own: () => createService(alice, OWN, catalog),
    get: (name = NAME) => catalog.services.get(name),
    look: () => lookAt(catalog, server),
    /** Recovers, as a manager does when it starts. */
    async recover() {
      // Reservations of names have expired by then.
      clock.now += RESERVATION_LIFETIME;
      await recoverServices(Number.POSITIVE_INFINITY, catalog);
      await recoverWorkers(Number.POSITIVE_INFINITY, workers);
    },
    async [Symbol.asyncDispose]() {
      await server.close();
      await cluster.close();
      removeTemporaryDirectory(directory);
    },
  };
}

function withAnnouncedKeys(journal: Services['journal']): Services['journal'] {
  return new Proxy(journal, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (key: string, ...rest: unknown[]) =>
        name === 'read' && key.startsWith('expected/')
          ? Promise.resolve({ key, state: { until: Number.MAX_SAFE_INTEGER } })
          : (value.call(target, key, ...rest) as unknown);
    },
  });
}

/** Everything that is stored, without versions and tombstones. */
async function lookAt(catalog: Services, server: ReturnType<typeof openObjectStore>) {
  const services = (await catalog.services.list({})).items.map(({ service }) => ({
    ...service,
    token: service.token.reveal(),
  }));
  const buckets = server.listBuckets({ limit: 100 }).map(({ name, owner, madeBy, visibility }) => ({
    name,
    owner,
    madeBy,
    visibility,
    rules: server.listRules(name),
    objects: server.listObjects(name, { limit: 100 }).objects.map(({ key, eTag }) => ({ key, eTag })),
  }));
  const journal = (await catalog.journal.list('')).items
    .map(({ key }) => key)
    .filter((key) => !/^(tombstone|ended)\//.test(key));
  return { services, buckets, journal, secrets: await secretsIn(catalog) };
}

async function secretsIn({ secrets }: Services): Promise<Record<string, Record<string, string>>> {
  const found: [string, Record<string, string>][] = [];
  for (const room of ['service', 'credentials', 'member'] as const) {
    for (const key of (await secrets.keys(room)).items) {
      const values = Object.entries((await secrets.get(room, key))?.values ?? {});
      // An empty bundle of secrets equals a missing one.
      if (values.length === 0) continue;
      found.push([`${room}/${key}`, Object.fromEntries(values.map(([name, value]) => [name, value.reveal()]))]);
    }
  }
  return Object.fromEntries(found);
}

/** The crash of a manager: from here on its calls have no effect. */
export class Crash extends Error {}

/** The same manager, which crashes before its n-th write. Counts its writes, so that a test can crash at each of them. */
export function dying({ catalog, instance }: Workers, at: number) {
  const made = { writes: 0 };
  const reads = new Set(['get', 'list', 'read', 'keys', 'bucket', 'buckets', 'objects', 'watch']);
  const mortal = <T extends object>(port: T): T =>
    new Proxy(port, {
      get(target, name) {
        const value = Reflect.get(target, name, target);
        if (typeof value !== 'function') return value;
        return async (...args: unknown[]) => {
          if (!reads.has(String(name))) made.writes++;
          if (made.writes >= at) throw new Crash();
          return value.apply(target, args);
        };
      },
    });
  const { services, secrets, journal, objects } = catalog;
  const mortals = {
    services: mortal(services),
    secrets: mortal(secrets),
    journal: mortal(journal),
    objects: objects && mortal(objects),
  };
  return { workers: { catalog: { ...catalog, ...mortals }, instance } satisfies Workers, made };
}
