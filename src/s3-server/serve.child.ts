import { writeSync } from 'node:fs';
import { Seal, Secret } from '../lib/secret.ts';
import { openObjectStore } from './open.ts';

/** Serves the given directory, prints the port, and runs until it is killed. Tests start it. */
const [directory = '', partBytes = ''] = process.argv.slice(2);
const store = openObjectStore({
  directory,
  region: 'us-east-1',
  manager: { accessKey: 'oscar-manager', secret: new Secret('manager-secret-1') },
  seal: new Seal(Buffer.alloc(32, 7)),
  ...(partBytes !== '' && { limits: { partBytes: Number(partBytes) } }),
});
const { port } = await store.listen({ host: '127.0.0.1', port: 0 });
writeSync(1, `${port}\n`);
