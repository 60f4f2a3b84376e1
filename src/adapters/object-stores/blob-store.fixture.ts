import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../lib/secret.ts';
import { openObjectStore } from '../../s3-server/index.ts';
import { ObjectBlobStore } from './blob-store.ts';
import { EmbeddedStore } from './embedded/index.ts';

/** Without encryption, which has its own tests. */
const seal = { seal: (text: string) => Buffer.from(text), open: (bytes: Uint8Array) => Buffer.from(bytes).toString() };

/** A blob store in an embedded store of its own. */
export async function openBlobStore() {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-blobs-'));
  const manager = { accessKey: 'manager', secret: new Secret('manager-secret') };
  const server = openObjectStore({ directory, region: 'us-east-1', manager, seal });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const store = new EmbeddedStore({ server, endpoint: `http://127.0.0.1:${port}` });
  return {
    blobs: new ObjectBlobStore(store),
    store,
    close: async () => {
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
