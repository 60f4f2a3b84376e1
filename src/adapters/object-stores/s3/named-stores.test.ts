import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import type { ProviderBucket } from '../../../ports/index.ts';
import { OPERATOR_KEYS, openNamedStore } from './named-stores.fixture.ts';

const bucket = (name: string, more: Partial<ProviderBucket> = {}): ProviderBucket => ({
  store: 'minio.shared',
  bucket: name,
  owner: 'alice',
  ownerName: 'Alice',
  madeFor: { uid: 'u1', service: 'one' },
  ...more,
});

const OF_SECOND = { madeFor: { uid: 'u2', service: 'two' } };

test('named store: a bucket is made with its owner and its service, and a second call changes nothing', async (t) => {
  const { server, stores } = await openNamedStore(t);
  await stores.ensure(bucket('fresh'));
  const tags = { owner: 'alice', owner_name: 'Alice', from_service: 'one', oscar_service_uid: 'u1' };
  assert.deepEqual(server.describeBucket('fresh')?.tags, tags);
  await stores.ensure(bucket('fresh'));
  assert.deepEqual(server.describeBucket('fresh')?.tags, tags);
});

test('named store: an empty bucket goes with its service, one with results stays', async (t) => {
  const { server, stores, reported } = await openNamedStore(t);
  for (const name of ['empty', 'full']) await stores.ensure(bucket(name));
  await server.putObject({ bucket: 'full', key: 'out/x' }, Buffer.from('result'));
  for (const name of ['empty', 'full', 'never-made']) await stores.remove(bucket(name), 'u1');
  assert.equal(server.describeBucket('empty'), undefined);
  assert.equal(server.describeBucket('full')?.usage.objects, 1);
  assert.deepEqual(reported, []);
});

test('named store: a bucket that the operator made is used by anybody, is not tagged, and stays', async (t) => {
  const { server, stores } = await openNamedStore(t);
  await server.createBucket({ name: 'archive', owner: 'operator' });
  await stores.ensure(bucket('archive'));
  await stores.ensure(bucket('archive', { owner: 'bob', ...OF_SECOND }));
  await stores.remove(bucket('archive'), 'u1');
  assert.deepEqual(server.describeBucket('archive')?.tags, {});
});

test('named store: a bucket of another owner is refused and stays as it is', async (t) => {
  const { server, stores } = await openNamedStore(t);
  await stores.ensure(bucket('hers'));
  const before = server.describeBucket('hers');
  await assert.rejects(stores.ensure(bucket('hers', { owner: 'bob', ...OF_SECOND })), {
    code: 'bucket-taken',
    message: 'the bucket "hers" of minio.shared belongs to another user: choose another path',
  });
  await stores.remove(bucket('hers'), 'u2');
  assert.deepEqual(server.describeBucket('hers'), before);
});

test('named store: a bucket that a second service uses goes with neither', async (t) => {
  const { server, stores } = await openNamedStore(t);
  await stores.ensure(bucket('both'));
  await stores.ensure(bucket('both', OF_SECOND));
  for (const uid of ['u1', 'u2']) await stores.remove(bucket('both'), uid);
  assert.deepEqual(server.describeBucket('both')?.tags, { owner: 'alice', owner_name: 'Alice' });
});

test('named store: a refusal of the store is a sentence, and nothing is made', async (t) => {
  const { server, endpoint, storesAt } = await openNamedStore(t);
  await assert.rejects(
    storesAt(endpoint, { ...OPERATOR_KEYS, accessKey: new Secret('nobody') }).ensure(bucket('x-b')),
    {
      code: 'provider-refused',
      message:
        'the bucket "x-b" of minio.shared cannot be used: the store does not know the access key of this provider. Ask the operator of this cluster, or choose another storage provider',
    },
  );
  await assert.rejects(storesAt(endpoint, { ...OPERATOR_KEYS, secretKey: new Secret('wrong') }).ensure(bucket('x-b')), {
    code: 'provider-refused',
    message: /the secret key of this provider is wrong/,
  });
  await server.putUser('limited', new Secret('limited-secret'));
  await server.createBucket({ name: 'closed', owner: 'operator' });
  const limited = { accessKey: new Secret('limited'), secretKey: new Secret('limited-secret') };
  await assert.rejects(storesAt(endpoint, limited).ensure(bucket('closed')), {
    code: 'provider-refused',
    message: /"closed" of minio\.shared cannot be used: access is denied/,
  });
  assert.equal(server.describeBucket('x-b'), undefined);
});

test('named store: an unreachable store gives an error that says so, and its buckets stay when a service is removed', async (t) => {
  const { storesAt, reported } = await openNamedStore(t);
  const closed = http.createServer().listen(0, '127.0.0.1');
  await once(closed, 'listening');
  const { port } = closed.address() as AddressInfo;
  closed.close();
  const away = storesAt(`http://127.0.0.1:${port}`);
  await assert.rejects(away.ensure(bucket('x-b')), {
    code: 'provider-unavailable',
    message: `the bucket "x-b" of minio.shared cannot be used now: "127.0.0.1:${port}" cannot be reached: nothing listens there`,
  });
  await away.remove(bucket('x-b'), 'u1');
  assert.deepEqual(reported, ['the bucket "x-b" of minio.shared, which is not used any more, was not removed']);
});

test('named store: something that is no store is said to be none', async (t) => {
  const { storesAt } = await openNamedStore(t);
  const page = http.createServer((_, response) => response.end('<html>')).listen(0, '127.0.0.1');
  await once(page, 'listening');
  t.after(() => page.close());
  const { port } = page.address() as AddressInfo;
  await assert.rejects(storesAt(`http://127.0.0.1:${port}`).ensure(bucket('x-b')), {
    code: 'provider-unavailable',
    message: /"127\.0\.0\.1:\d+" does not answer like a store/,
  });
});

test('named store: without tags a bucket is created, and only its creator removes it', async (t) => {
  const { server, endpoint, storesAt } = await openNamedStore(t);
  const untagged = await startWithoutTags(t, endpoint);
  const [first, later] = [storesAt(untagged), storesAt(untagged)];
  await first.ensure(bucket('undone'));
  await first.remove(bucket('undone'), 'u1');
  assert.equal(server.describeBucket('undone'), undefined);
  await first.ensure(bucket('kept'));
  await later.remove(bucket('kept'), 'u1');
  assert.deepEqual(server.describeBucket('kept')?.tags, {});
});

/** The same store, as one answers that knows no tags. Requests are signed for its own address: they pass as they are. */
async function startWithoutTags(t: TestContext, endpoint: string): Promise<string> {
  const front = http.createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    if (url.includes('tagging')) {
      request.resume();
      response.writeHead(501).end('<Error><Code>NotImplemented</Code></Error>');
      return;
    }
    const passed = http.request(`${endpoint}${url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    request.pipe(passed);
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  t.after(() => {
    front.close();
    front.closeAllConnections();
  });
  return `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
}
