import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { openObjectStore } from '../../../s3-server/index.ts';
import { NamedStores } from './named-stores.ts';

export const OPERATOR_KEYS = { accessKey: new Secret('operator'), secretKey: new Secret('operator-secret') };

/** The embedded server, as a store that an operator has named. */
export async function openNamedStore(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-named-'));
  const seal = {
    seal: (text: string) => Buffer.from(text),
    open: (bytes: Uint8Array) => Buffer.from(bytes).toString(),
  };
  const manager = { accessKey: OPERATOR_KEYS.accessKey.reveal(), secret: OPERATOR_KEYS.secretKey };
  const server = openObjectStore({ directory, region: 'us-east-1', manager, seal });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  t.after(async () => {
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const reported: string[] = [];
  const endpoint = `http://127.0.0.1:${port}`;
  const storesAt = (address: string, keys = OPERATOR_KEYS) => {
    const access = { endpoint: address, region: 'us-east-1', verify: true, ...keys };
    const made = new NamedStores(new Map([['minio.shared', access]]), {
      managerName: 'oscar',
      report: (_problem, what) => void reported.push(what),
    });
    t.after(() => made.close());
    return made;
  };
  return { server, endpoint, stores: storesAt(endpoint), storesAt, reported };
}
