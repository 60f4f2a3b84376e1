import { s3Access } from './embedded-store.fixture.ts';
import { createStaging } from './worker-pool.ts';

/** Has a worker fetch from the store on this port, and goes on until it is killed. Run by tests. */
const [port = '', to = ''] = process.argv.slice(2);
const staging = createStaging({ workers: 2, networks: [] });
const from = { store: 'minio.default', bucket: 'inputs', key: 'a' };
await staging.fetch({ from, access: s3Access(Number(port)), to });
