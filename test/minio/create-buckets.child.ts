import { bucket } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { openStore } from './under-test.ts';

/** Creates and changes buckets until it is killed. Prints each name before it begins. */
const [endpoint = '', prefix = '', lease = ''] = process.argv.slice(2);
const store = openStore({ endpoint, region: 'us-east-1' }, { lease: Number(lease) });
for (let i = 0; ; i++) {
  const name = `${prefix}-${i}`;
  process.stdout.write(`${name}\n`);
  const more = i % 2 === 0 ? {} : ({ visibility: 'restricted', allowedUsers: ['bob'] } as const);
  await store.createBucket(bucket(name, { ...more, madeFor: { uid: `uid-${prefix}`, service: 'svc' } }));
  if (i % 3 === 0) await store.changeBucket(name, { visibility: 'public' });
  if (i % 5 === 4) await store.removeBucket(name);
}
