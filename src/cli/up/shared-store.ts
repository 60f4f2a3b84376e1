import { hash } from 'node:crypto';
import { Seal, Secret } from '../../lib/secret.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import type { Plan } from './plan.ts';

/** Serves `minio.shared`, an object store that belongs to no cluster, in this process. Its one key pair has all rights. */
export async function startSharedStore(
  { sharedPort, storeKeys: { accessKey, secretKey } }: Plan,
  directory: string,
  notify: (line: string) => void,
): Promise<{ stop(): Promise<void> }> {
  const store = openObjectStore({
    directory,
    region: 'us-east-1',
    manager: { accessKey, secret: new Secret(secretKey) },
    seal: new Seal(hash('sha256', secretKey, 'buffer')),
    report: (error) => notify(`minio.shared failed: ${error instanceof Error ? error.message : String(error)}`),
  });
  try {
    await store.listen({ host: '127.0.0.1', port: sharedPort });
  } catch (error) {
    await store.close();
    throw error;
  }
  return { stop: () => store.close() };
}
