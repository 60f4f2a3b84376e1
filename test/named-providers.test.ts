import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startStore, type TestStore } from './objectstore/start-store.ts';
import { copying, delegating, onlySucceeded, placeOf, startDelegation } from './support/delegation.ts';
import { type Clusters, expectStatus, member } from './support/federation.ts';
import { eventually, service } from './support/jobs.ts';
import { lastingPorts } from './support/lasting-port.ts';

const providerAt = ({ endpoint }: { endpoint: string }) => ({
  endpoint,
  access_key: 'oscar-manager',
  secret_key: 'manager-secret-1',
});

/** A store that only the operator of the origin has named, and one that is named and away. */
let shared: TestStore;
let them: Clusters;
before(async () => {
  const [nowhere = 0] = await lastingPorts(1);
  shared = await startStore();
  const providers = {
    'minio.shared': providerAt(shared),
    'minio.away': providerAt({ endpoint: `http://127.0.0.1:${nowhere}` }),
  };
  const own = { 'oscar-cluster': { OSCAR_STORAGE_PROVIDERS: JSON.stringify(providers) } };
  them = await startDelegation({ own });
});
after(async () => {
  await them[Symbol.asyncDispose]();
  await shared[Symbol.asyncDispose]();
});

const at = (provider: string, path: string) => ({ storage_provider: provider, path });
const own = (path: string) => at('minio.default', path);

/** Nothing of that name is at the origin. */
async function expectNothing(name: string): Promise<void> {
  const { origin, people } = them;
  assert.equal((await origin.call('GET', `/system/services/${name}`, { as: people.alice })).status, 404);
  const { json } = await origin.call('GET', '/system/buckets', { as: origin.admin });
  const buckets = (json() as { bucket_name: string }[]).map(({ bucket_name }) => bucket_name);
  assert.ok(!buckets.includes(name), buckets.join());
}

const keysIn = (bucket: string) => shared.store.listObjects(bucket, { limit: 100 }).objects.map(({ key }) => key);

describe('named provider', () => {
  test('named provider: a new service has its bucket there, and its first result arrives', async () => {
    const { origin, people } = them;
    const body = service('first', copying(), { output: [at('minio.shared', 'first-results/out')] });
    await origin.outside.create(people.alice, body);
    assert.equal(shared.store.describeBucket('first-results')?.tags['from_service'], 'first');
    await origin.outside.put(people.alice, 'first/in/x', 'x');
    await onlySucceeded(origin, people.alice, 'first');
    assert.deepEqual(keysIn('first-results'), ['out/x']);

    expectStatus(await origin.call('DELETE', '/system/services/first', { as: people.alice }), 204);
    assert.deepEqual(keysIn('first-results'), ['out/x'], 'results outlive the service at a store that others use');
  });

  test('named provider: an empty bucket is deleted with its service', async () => {
    const { origin, people } = them;
    const body = service('unused', 'true', { output: [at('minio.shared', 'unused-results/out')] });
    await origin.outside.create(people.alice, body);
    assert.ok(shared.store.describeBucket('unused-results'));
    expectStatus(await origin.call('DELETE', '/system/services/unused', { as: people.alice }), 204);
    assert.equal(shared.store.describeBucket('unused-results'), undefined);
  });

  test('named provider: deleting a service keeps the bucket of the same name in the store of the cluster (S6)', async () => {
    const { origin, people } = them;
    expectStatus(
      await origin.call('POST', '/system/buckets', { as: people.alice, body: { bucket_name: 'twin-results' } }),
      201,
    );
    const body = service('twin', 'true', { output: [at('minio.shared', 'twin-results/out')] });
    await origin.outside.create(people.alice, body);
    expectStatus(await origin.call('DELETE', '/system/services/twin', { as: people.alice }), 204);
    assert.equal(shared.store.describeBucket('twin-results'), undefined, 'the bucket of the service is deleted');
    const { json } = await origin.call('GET', '/system/buckets', { as: people.alice });
    const names = (json() as { bucket_name: string }[]).map(({ bucket_name }) => bucket_name);
    assert.ok(names.includes('twin-results'), names.join());
  });

  test('named provider: an update creates the buckets of new outputs, and deletes empty ones of old outputs', async () => {
    const { origin, people } = them;
    const writingTo = (...output: object[]) => service('moved', 'true', { output });
    await origin.outside.create(people.alice, writingTo(at('minio.shared', 'moved-one/out')));
    const put = (body: object) => origin.call('PUT', '/system/services', { as: people.alice, body });
    expectStatus(await put(writingTo(at('minio.shared', 'moved-two/out'))), 204);
    assert.equal(shared.store.describeBucket('moved-one'), undefined);
    assert.ok(shared.store.describeBucket('moved-two'));

    const refused = await put(
      writingTo(
        at('minio.shared', 'moved-two/out'),
        at('minio.shared', 'moved-three/out'),
        at('minio.away', 'x-b/out'),
      ),
    );
    assert.equal(refused.status, 503, refused.text);
    assert.equal(shared.store.describeBucket('moved-three'), undefined, 'nothing is left of it');
    assert.ok(shared.store.describeBucket('moved-two'));
    const { json } = await origin.call('GET', '/system/services/moved', { as: people.alice });
    assert.deepEqual(
      (json() as { output: { path: string }[] }).output.map(({ path }) => path),
      ['moved-two/out'],
    );
  });

  test('named provider: the create fails if it cannot be reached, and leaves nothing behind', async () => {
    const { origin, people } = them;
    const output = [at('minio.shared', 'nowhere-results/out'), at('minio.away', 'nowhere-results/out')];
    const body = service('nowhere', 'true', { output });
    const { status, text } = await origin.call('POST', '/system/services', { as: people.alice, body });
    assert.equal(status, 503);
    assert.match(
      text,
      /^the bucket "nowhere-results" of minio\.away cannot be used now: "127\.0\.0\.1:\d+" cannot be reached/,
    );
    await expectNothing('nowhere');
    assert.equal(shared.store.describeBucket('nowhere-results'), undefined);
  });

  test('named provider: a bucket of another user is rejected, and the create leaves nothing behind', async () => {
    const { origin, people } = them;
    const writing = (name: string) => service(name, 'true', { output: [at('minio.shared', 'alices-own/out')] });
    await origin.outside.create(people.alice, writing('hers'));
    const theirs = shared.store.describeBucket('alices-own');
    const body = writing('his');
    const { status, text } = await origin.call('POST', '/system/services', { as: people.bob, body });
    assert.equal(status, 409);
    assert.equal(text, 'the bucket "alices-own" of minio.shared belongs to another user: choose another path');
    await expectNothing('his');
    assert.deepEqual(shared.store.describeBucket('alices-own'), theirs);
  });

  test('named provider: a create that fails at the store of the cluster deletes its buckets', async () => {
    const { origin, people } = them;
    expectStatus(
      await origin.call('POST', '/system/buckets', { as: people.bob, body: { bucket_name: 'bobs-own' } }),
      201,
    );
    const output = [at('minio.shared', 'undone-results/out'), own('bobs-own/out')];
    const body = service('undone', 'true', { output });
    const { status, text } = await origin.call('POST', '/system/services', { as: people.alice, body });
    assert.equal(status, 409, text);
    await expectNothing('undone');
    assert.equal(shared.store.describeBucket('undone-results'), undefined);
  });
});

describe('named provider of a federation', () => {
  test('named provider: members need not know it, create no bucket, and their results arrive', async () => {
    const { origin, a, b, people } = them;
    const output = [at('minio.shared', 'spread-results/out'), own('spread/out')];
    await delegating(them, 'spread', [member(a, 'spread1'), member(b, 'spread2')], { script: copying(), output });
    assert.equal(shared.store.describeBucket('spread-results')?.tags['from_service'], 'spread');
    await origin.outside.put(people.alice, 'spread/in/x', 'x');
    const job = await onlySucceeded(origin, people.alice, 'spread');
    assert.ok([a.id, b.id].includes(placeOf(job) ?? ''));
    assert.deepEqual(keysIn('spread-results'), ['out/x']);
    const all = shared.store.listBuckets({ limit: 100 }).map(({ name }) => name);
    assert.deepEqual(
      all.filter((name) => name.startsWith('spread')),
      ['spread-results'],
    );
  });

  test('named provider: a rolled back federation leaves no bucket', async () => {
    const { a } = them;
    const made = () => shared.store.describeBucket('never-results') !== undefined;
    let wasMade = false;
    // The probe finds nothing wrong; the member fails once the origin has made its own part.
    a.wire.interfere(async (seen, response, passOn) => {
      if (seen.method !== 'POST' || seen.path !== '/system/services') return passOn();
      await eventually(() => assert.ok(made()));
      wasMade = true;
      response.writeHead(500).end();
    });
    const given = { script: 'true', output: [at('minio.shared', 'never-results/out')] };
    const refused = delegating(them, 'never', [member(a, 'never1')], given);
    await assert.rejects(
      refused.finally(() => a.wire.interfere()),
      /424|504/,
    );
    assert.ok(wasMade);
    await eventually(async () => {
      await expectNothing('never');
      assert.ok(!made());
    });
  });
});
