import { s3Access } from './embedded-store.fixture.ts';
import { createStaging } from './worker-pool.ts';

/** Lets a worker fetch from the store on this port, and runs until it is killed. Tests start it. */
const [port = '', to = ''] = process.argv.slice(2);
const staging = createStaging({ workers: 2, networks: [] });
const from = { store: 'minio.default', bucket: 'inputs', key: 'a' };
await staging.fetch({ from, access: s3Access(Number(port)), to });
