import { hash } from 'node:crypto';
import { Seal } from '../../lib/seal.ts';
import { Secret } from '../../lib/secret.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import type { Plan } from './plan.ts';

/**
 * Serves `minio.shared`: an object store beside those of the clusters, in this process. It has no users: whoever has its
 * keys may do everything.
 */
export async function startSharedStore(
  { sharedPort, storeKeys: { accessKey, secretKey } }: Plan,
  directory: string,
  tell: (line: string) => void,
): Promise<{ stop(): Promise<void> }> {
  const store = openObjectStore({
    directory,
    region: 'us-east-1',
    manager: { accessKey, secret: new Secret(secretKey) },
    seal: new Seal(hash('sha256', secretKey, 'buffer')),
    report: (error) => tell(`minio.shared failed: ${error instanceof Error ? error.message : String(error)}`),
  });
  try {
    await store.listen({ host: '127.0.0.1', port: sharedPort });
  } catch (error) {
    await store.close();
    throw error;
  }
  return { stop: () => store.close() };
}
