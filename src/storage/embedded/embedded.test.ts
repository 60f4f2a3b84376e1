import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Secret } from '../../base/secret.ts';
import { openObjectStore } from '../../objectstore/index.ts';
import { describeObjectStore } from '../object-store.conformance.ts';
import { EmbeddedStore } from './index.ts';

/** Nothing is secret here; how values are sealed is tested where they are. */
const seal = { seal: (text: string) => Buffer.from(text), open: (bytes: Uint8Array) => Buffer.from(bytes).toString() };

describeObjectStore('the embedded store', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-store-'));
  const manager = { accessKey: 'manager', secret: new Secret('manager-secret') };
  const server = openObjectStore({ directory, region: 'us-east-1', manager, seal });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const endpoint = `http://127.0.0.1:${port}`;
  return {
    store: new EmbeddedStore({ server, endpoint }),
    endpoint,
    region: 'us-east-1',
    async close() {
      await server.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
});
