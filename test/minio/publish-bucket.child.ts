import { StoreError } from '../../src/ports/index.ts';
import { openStore } from './under-test.ts';

/** Makes one bucket public, and prints the result. */
const [endpoint = '', name = '', lease = ''] = process.argv.slice(2);
const store = openStore({ endpoint, region: 'us-east-1' }, { lease: Number(lease) });
try {
  await store.changeBucket(name, { visibility: 'public' });
  process.stdout.write('done');
} catch (error) {
  process.stdout.write(error instanceof StoreError ? `${error.code}: ${error.message}` : String(error));
}
store.close();
