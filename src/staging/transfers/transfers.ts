import { Slots } from '../../lib/concurrency.ts';
import type { Network } from '../../lib/http/index.ts';
import { fetchObject } from './fetch.ts';
import { pack } from './pack.ts';
import { Connections, lazyStores, type StoreOpener } from './remote-store.ts';
import { S3Clients, s3Store } from './s3.ts';
import type { Staging } from './staging.ts';
import { plan, upload } from './upload.ts';
import { webdavStore } from './webdav.ts';

/** Concurrent files. More need more memory, up to three parts of 5 MiB each; fewer make many small files slower. */
const FILES_AT_ONCE = 6;

/** Staging in the current process, which is a worker or a program of a pod. */
export function createTransfers(networks: readonly Network[]): Staging {
  const connections = new Connections(networks);
  const clients = new S3Clients(connections);
  const slots = new Slots(FILES_AT_ONCE);

  const open: StoreOpener = (access) =>
    access.type === 's3'
      ? s3Store(clients, access)
      : webdavStore(access, connections.client({ guarded: access.guarded, verify: true }));

  return {
    fetch: (order) => fetchObject(order, open),
    plan,
    upload: (order) => {
      const stores = lazyStores(order.stores, open);
      return upload(order, { store: async (id) => stores(id), slots });
    },
    pack,
    close: async () => connections.close(),
  };
}
