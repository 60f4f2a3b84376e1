import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import { NamedStores } from '../../src/adapters/object-stores/s3/index.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { Minio, ROOT } from './minio.ts';

/** A user of MinIO who may use all of S3, as an operator would name in `OSCAR_STORAGE_PROVIDERS`. */
const OPERATOR = { accessKey: new Secret('operator'), secretKey: new Secret('operator-secret') };
/** A user who may only read. */
const READER = { accessKey: new Secret('reader'), secretKey: new Secret('reader-secret') };

let minio: Minio;
const opened: NamedStores[] = [];
before(async () => {
  minio = await Minio.start();
  const { endpoint, region } = minio;
  const requests = new SignedHttpClient({ endpoint, region, verify: true });
  const admin = new MinioAdmin({ requests, keys: ROOT });
  await admin.putUser('operator', OPERATOR.secretKey);
  await admin.putUser('reader', READER.secretKey);
  // Shortly after its start, MinIO does not know its own policies.
  await eventually(() => admin.attach(['readwrite'], { user: 'operator' }));
  await eventually(() => admin.attach(['readonly'], { user: 'reader' }));
  requests.close();
});
after(async () => {
  for (const each of opened) each.close();
  await minio.stop();
});

function storesWith(keys: typeof OPERATOR): NamedStores {
  const { endpoint, region } = minio;
  const stores = new NamedStores(new Map([['minio.shared', { endpoint, region, verify: true, ...keys }]]), {
    managerName: 'oscar',
    report: (problem) => assert.fail(String(problem)),
  });
  opened.push(stores);
  return stores;
}

const bucket = (name: string, owner: string, uid: string) => ({
  store: 'minio.shared',
  bucket: name,
  owner,
  ownerName: owner,
  madeFor: { uid, service: `service-${uid}` },
});

test('named store: MinIO stores the owner of a bucket, and only our empty buckets are removed', async () => {
  const stores = storesWith(OPERATOR);
  const client = storeClient(minio, OPERATOR);
  const hers = bucket('hers-b', 'alice@example.org', 'u1');
  await stores.ensure(hers);
  await stores.ensure(hers);
  await assert.rejects(stores.ensure(bucket('hers-b', 'bob', 'u2')), { code: 'bucket-taken' });
  await client.put('hers-b', 'out/x', 'result');
  await stores.remove(hers, 'u1');
  await client.head('hers-b', 'out/x');

  await stores.ensure(bucket('empty-b', 'alice', 'u1'));
  await stores.remove(bucket('empty-b', 'alice', 'u1'), 'u1');
  await assert.rejects(client.put('empty-b', 'x', 'x'), { name: 'NoSuchBucket' });
});

test('named store: an error of MinIO becomes a sentence', async () => {
  await assert.rejects(storesWith(READER).ensure(bucket('denied-b', 'alice', 'u1')), {
    code: 'provider-refused',
    message: /the bucket "denied-b" of minio\.shared cannot be used: access is denied/,
  });
  const unknown = { ...OPERATOR, accessKey: new Secret('nobody') };
  await assert.rejects(storesWith(unknown).ensure(bucket('denied-b', 'alice', 'u1')), {
    code: 'provider-refused',
    message: /does not know the access key/,
  });
  const wrong = { ...OPERATOR, secretKey: new Secret('wrong-secret') };
  await assert.rejects(storesWith(wrong).ensure(bucket('denied-b', 'alice', 'u1')), {
    code: 'provider-refused',
    message: /the secret key of this provider is wrong/,
  });
});
