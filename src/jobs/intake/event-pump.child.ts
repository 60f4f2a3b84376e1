import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { EmbeddedEvents } from '../../adapters/object-stores/embedded/index.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { Secret } from '../../lib/secret.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { EventPump } from './event-pump.ts';

/** Takes uploads into the directory that it is given and makes jobs of them, until it is killed. Run by tests. */
const [directory = ''] = process.argv.slice(2);
const cluster = openLocalCluster({ directory });
const server = openObjectStore({
  directory: join(directory, 'objects'),
  region: 'us-east-1',
  manager: { accessKey: 'oscar', secret: new Secret('manager-secret') },
  seal: cluster.seal,
});
const pump = new EventPump({
  source: new EmbeddedEvents(server),
  jobs: {
    store: cluster.jobs,
    services: cluster.services,
    scheduler: { enqueue: () => undefined, cancel: async () => undefined, waitUntilEnded: async () => undefined },
    now: Date.now,
    place: 'here',
    storeAccount: 'oscar',
  },
  report: (problem) => writeSync(2, `${String(problem)}\n`),
});
pump.start();
const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
writeSync(1, `${port}\n`);
