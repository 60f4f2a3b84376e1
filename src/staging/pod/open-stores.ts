import type { StoreAccess } from '../../model/job/index.ts';
import type { Connections, StoreOpener } from '../transfers/remote-store.ts';

/**
 * Returns a function that opens these stores. Clients are loaded only if needed: they would take most of the start-up
 * time.
 */
export async function storeOpener(connections: Connections, accesses: Iterable<StoreAccess>): Promise<StoreOpener> {
  const types = new Set([...accesses].map(({ type }) => type));
  const [s3, webdav] = await Promise.all([
    types.has('s3') ? loadS3(connections) : undefined,
    types.has('webdav') ? import('../transfers/webdav.ts') : undefined,
  ]);
  return (access) => {
    if (access.type === 's3' && s3) return s3(access);
    if (access.type === 'webdav' && webdav)
      return webdav.webdavStore(access, connections.client({ guarded: access.guarded, verify: true }));
    throw new Error('there are no keys for this store');
  };
}

async function loadS3(connections: Connections) {
  const { s3Store, S3Clients } = await import('../transfers/s3.ts');
  const clients = new S3Clients(connections);
  return (access: StoreAccess & { type: 's3' }) => s3Store(clients, access);
}
