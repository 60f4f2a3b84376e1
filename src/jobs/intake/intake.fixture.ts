import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { EmbeddedEvents, EmbeddedStore } from '../../adapters/object-stores/embedded/index.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobRecord } from '../../model/job/index.ts';
import type { Service } from '../../model/service/index.ts';
import { aService } from '../../model/service/service.fixture.ts';
import type { JobStore } from '../../ports/index.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { provisionStorage } from '../../services/index.ts';
import { EventPump } from './event-pump.ts';
import { Sweep, WatchedPrefixes } from './sweep.ts';

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Where the clock of every scene begins. */
const BEGIN = Date.UTC(2026, 0, 1);

export type Scene = ReturnType<typeof openScene>;

/**
 * A cluster and its object store on the disk, with a clock that is set by hand; nothing runs but what the test starts. A
 * directory makes it the same cluster as before, as after a crash.
 */
export function openScene(directory = makeTemporaryDirectory()) {
  const clock = { now: BEGIN };
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
  const source = new EmbeddedEvents(server);
  const enqueued: string[] = [];
  const scheduler = {
    // Like the real scheduler: a queued job is not queued again.
    enqueue: ({ id }: { id: string }) => {
      if (!enqueued.includes(id)) enqueued.push(id);
    },
    cancel: async () => undefined,
    waitUntilEnded: async () => undefined,
  };
  const problems: unknown[] = [];
  const report = (problem: unknown) => problems.push(problem);
  const jobs = {
    store: cluster.jobs,
    scheduler,
    now,
    place: 'here',
    services: cluster.services,
    objects,
    storeAccount: 'oscar',
  };

  const list = async (service: Service) =>
    (await cluster.jobs.list({ service: service.definition.name, limit: 10_000 })).items;
  return {
    ...cluster,
    directory,
    clock,
    server,
    objects,
    source,
    jobs,
    enqueued,
    problems,

    sweep: (store: JobStore = cluster.jobs) =>
      new Sweep({ jobs: { ...jobs, store }, journal: cluster.journal, report, storeTime: now }),
    pump: (store: JobStore = cluster.jobs) =>
      new EventPump({ source, jobs: { ...jobs, store }, report, wait: () => 1 }),

    /** With its buckets and subscriptions, as the catalog makes it. */
    async addService(name: string, ...paths: string[]): Promise<Service> {
      const service = describeService(name, paths);
      await provisionStorage(service, objects);
      const reservation = await cluster.services.reserve(name, service.uid);
      if (reservation === 'taken') throw new Error(`${name} is taken`);
      return (await cluster.services.create(reservation, service)).service;
    },
    /** Gives a service other inputs. */
    async changeService({ uid, definition: { name } }: Service, ...paths: string[]): Promise<void> {
      const service = describeService(name, paths, uid);
      await provisionStorage(service, objects);
      const current = await cluster.services.get(name);
      if (current) await cluster.services.replace(service, current.version);
    },
    async removeService({ definition: { name } }: Service): Promise<void> {
      const current = await cluster.services.get(name);
      if (current) await cluster.services.remove(name, current.version);
    },

    upload: (bucket: string, key: string, text = 'x') =>
      server.putObject({ bucket, key }, Buffer.from(text), { as: 'bob' }),
    /** The keys of the objects that a service has jobs for, one for each job. */
    async ran(service: Service): Promise<string[]> {
      return (await list(service)).map(({ object }) => object?.key ?? '').toSorted();
    },
    /** Ends every job of a service, as if it had run. */
    async finish(service: Service): Promise<void> {
      for (const record of await list(service)) await finishJob(record, cluster.jobs, clock.now);
    },
    /** The store's own queue delivers everything it has. */
    async deliver(): Promise<void> {
      const pump = new EventPump({ source, jobs, report, wait: () => 1 });
      pump.start();
      while ((await source.backlog()).events > 0) await new Promise((resolve) => setImmediate(resolve));
      await pump.stop();
    },
    async close({ keep = false } = {}): Promise<void> {
      await server.close();
      await cluster.close();
      if (!keep) removeTemporaryDirectory(directory);
    },
    [Symbol.asyncDispose](): Promise<void> {
      return this.close();
    },
  };
}

function describeService(name: string, paths: readonly string[], uid: string = randomUUID()): Service {
  const input = paths.map((path) => ({ storage_provider: 'minio.default', path }));
  return aService({ name, input }, { uid, owner: 'alice', ownerName: 'Alice' });
}

async function finishJob(record: JobRecord, store: JobStore, at: number): Promise<void> {
  if (record.state === 'succeeded') return;
  const { version, timeline } = record;
  const end = { state: 'succeeded', at, reason: 'Completed', message: 'done', place: 'here' } as const;
  await store.update(record, version, { state: 'succeeded', finishedAt: at, timeline: [...timeline, end] });
}

/** A pass some minutes from now, when whatever was just uploaded has settled. */
export async function passLater(scene: Scene, minutes = 3): Promise<void> {
  scene.clock.now += minutes * MINUTE;
  await scene.sweep().pass();
}

/** A service that has been swept once, so that its subscription is known. */
export async function subscribed(scene: Scene, name = 'demo', ...paths: string[]): Promise<Service> {
  const service = await scene.addService(name, ...(paths.length > 0 ? paths : [`${name}/in`]));
  await scene.sweep().pass();
  scene.clock.now += 1;
  return service;
}

/** What is remembered of all prefixes. */
export const known = (scene: Scene) => new WatchedPrefixes(scene.journal).all();
