import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { GetBucketNotificationConfigurationCommand } from '@aws-sdk/client-s3';
import type { MinioStore } from '../../src/adapters/object-stores/minio/index.ts';
import { everyBucket } from '../../src/buckets/index.ts';
import { bucket, keysOf, storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import { bothAt, Minio, ROOT } from './minio.ts';
import { openStore } from './under-test.ts';
import { Way } from './way.ts';

const CHILD = fileURLToPath(new URL('create-buckets.child.ts', import.meta.url));
const STANDSTILL = fileURLToPath(new URL('publish-bucket.child.ts', import.meta.url));

/** How long the claims of killed managers last. */
const LEASE = 3_000;

/** The same for a manager that is stopped: long enough to reach that point on a busy machine. */
const LONG_LEASE = 15_000;

let minio: Minio;
/** Two managers of one cluster, which share nothing but the store. */
let one: MinioStore;
let other: MinioStore;
before(async () => {
  // No manager receives events here.
  minio = await Minio.start({ hooks: bothAt('http://127.0.0.1:9/') });
  [one, other] = [openStore(minio), openStore(minio)];
  for (const uid of ['alice', 'bob']) await one.putUser(uid, keysOf(uid));
});
after(async () => {
  one.close();
  other.close();
  await minio.stop();
});

const as = (uid: string) => storeClient(minio, keysOf(uid));

test('sharing: concurrent changes of two managers are all applied', async () => {
  const names = Array.from({ length: 24 }, (_, i) => `both-${i}`);
  const outcomes = await Promise.all(
    names.flatMap((name) => [one, other].map((store) => store.createBucket(bucket(name)))),
  );
  assert.equal(outcomes.filter((outcome) => outcome === 'created').length, names.length);
  for (const name of names) await as('alice').put(name, 'k');

  await Promise.all(
    names.map((name, i) =>
      (i % 2 === 0 ? one : other).changeBucket(name, { visibility: i % 3 === 0 ? 'public' : 'private' }),
    ),
  );
  for (const [i, name] of names.entries()) {
    await as('alice').get(name, 'k');
    if (i % 3 === 0) await as('bob').get(name, 'k');
    else await assert.rejects(as('bob').get(name, 'k'));
  }
  await Promise.all(names.map((name, i) => (i % 2 === 0 ? one : other).removeBucket(name)));
  const left = (await Array.fromAsync(everyBucket(one, { visibleTo: 'alice' }))).map(({ name }) => name);
  assert.deepEqual(
    left.filter((name) => name.startsWith('both-')),
    [],
  );
});

test('conditional writes: MinIO honours If-Match and If-None-Match', async () => {
  assert.equal(await one.supportsSeveralManagers(), true);
  assert.equal(await other.supportsSeveralManagers(), true);
});

test('notification rules: rules of two managers for one bucket are all kept', async () => {
  await one.createBucket(bucket('rules-b'));
  const subscription = (i: number) => ({ bucket: 'rules-b', prefix: `in-${i}/`, subscriber: `u${i}` });
  const all = Array.from({ length: 8 }, (_, i) => subscription(i));
  await Promise.all(all.map((each, i) => (i % 2 === 0 ? one : other).subscribe(each)));
  const rules = async () => {
    const asked = new GetBucketNotificationConfigurationCommand({ Bucket: 'rules-b' });
    return (await storeClient(minio, ROOT).client.send(asked)).QueueConfigurations ?? [];
  };
  assert.equal((await rules()).length, 2 * all.length, 'one for each target');
  await Promise.all(all.slice(1).map((each, i) => (i % 2 === 0 ? one : other).unsubscribe(each)));
  assert.deepEqual(
    (await rules()).map(({ QueueArn }) => QueueArn),
    ['arn:minio:sqs::OSCAR_FAST:webhook', 'arn:minio:sqs::OSCAR_DURABLE:webhook'],
  );
});

test('buckets: a killed manager leaves no bucket without an owner and no hidden right', {
  timeout: 300_000,
}, async () => {
  for (let round = 0; round < 6; round++) {
    const prefix = `killed-${round}`;
    const begun = await killedAfter(prefix, 2 + round * 3, round * 7);
    for (const name of begun) {
      const found = await one.bucket(name);
      if (!found) continue;
      assert.deepEqual([found.owner, found.madeFor?.uid], ['alice', `uid-${prefix}`], name);
      await as('alice').put(name, 'k');
      const bob = await as('bob')
        .get(name, 'k')
        .then(
          () => true,
          () => false,
        );
      assert.equal(bob, found.visibility !== 'private', `${name} is ${found.visibility}`);
    }
    const made = (await Array.fromAsync(everyBucket(one, { madeFor: `uid-${prefix}` }))).map(({ name }) => name);
    const there = (await Promise.all(begun.map((name) => one.bucket(name)))).flatMap((found) =>
      found ? [found.name] : [],
    );
    assert.deepEqual(made, there.toSorted(), 'who removes the service finds them all');
    for (const name of made) await one.removeBucket(name);
    for (const name of begun) assert.equal(await one.createBucket(bucket(name, { owner: 'bob' })), 'created', name);
  }
});

test('sharing: a manager that was stopped during a change does not restore rights that were revoked meanwhile', {
  timeout: 120_000,
}, async () => {
  await one.createBucket(bucket('taken-b', { visibility: 'public' }));
  await one.createBucket(bucket('given-b'));
  await as('alice').put('taken-b', 'k');
  await as('bob').get('taken-b', 'k');
  using way = new Way(minio.endpoint);
  const endpoint = await way.listen();
  const child = spawn(process.execPath, [STANDSTILL, endpoint, 'given-b', String(LONG_LEASE)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const outcome = text(child.stdout);
  const stopped = Promise.withResolvers<void>();
  // Between its last read of the public policy, while it holds the claim, and its write.
  let claimed = false;
  way.answering = ({ method, path }, headers) => {
    claimed ||= method === 'PUT' && path.endsWith(`.claims/${hash('sha256', 'policy/all_users_group')}`);
    if (claimed && path.includes('info-canned-policy?name=all_users_group')) {
      way.answering = (_asked, plain) => plain;
      child.kill('SIGSTOP');
      stopped.resolve();
    }
    return headers;
  };
  await stopped.promise;
  await other.changeBucket('taken-b', { visibility: 'private' });
  await assert.rejects(as('bob').get('taken-b', 'k'));
  child.kill('SIGCONT');
  assert.match(await outcome, /^unavailable: this manager took too long to change "policy\/all_users_group"/);
  await assert.rejects(as('bob').get('taken-b', 'k'), 'it is still taken');
  assert.equal((await one.bucket('taken-b'))?.visibility, 'private');

  await one.changeBucket('given-b', { visibility: 'public' });
  await as('alice').put('given-b', 'k');
  await as('bob').get('given-b', 'k');
});

test('buckets: a failed rollback of a create is reported, and the next request completes it', {
  timeout: 120_000,
}, async (t) => {
  using way = new Way(minio.endpoint);
  const reported: string[] = [];
  const report = (problem: unknown, what: string) => void reported.push(`${what}: ${String(problem)}`);
  const store = openStore({ endpoint: await way.listen(), region: minio.region }, { lease: LEASE, report });
  t.after(() => store.close());
  await store.ensureStaging();
  way.refusing = ({ method, path }) =>
    (method === 'PUT' && path.startsWith('/half-b?tagging')) || (method === 'DELETE' && path === '/half-b')
      ? 503
      : undefined;
  await assert.rejects(store.createBucket(bucket('half-b')), {
    code: 'unavailable',
    message: /nor removed: the next request for it completes it/,
  });
  assert.match(reported.join(), /"half-b" could not be created completely, nor removed.*: .*DELETE \/half-b/);
  const found = await one.bucket('half-b');
  assert.equal(found?.owner, 'alice');
  await as('alice').put('half-b', 'k');
});

test('buckets: a bucket whose create was not answered is completed by the next request, not given to the administrator', {
  timeout: 120_000,
}, async (t) => {
  using way = new Way(minio.endpoint);
  const store = openStore({ endpoint: await way.listen(), region: minio.region }, { lease: LEASE });
  t.after(() => store.close());
  await store.ensureStaging();
  way.losing = ({ method, path }) => method === 'PUT' && path === '/unheard-b';
  await assert.rejects(store.createBucket(bucket('unheard-b')), { code: 'unavailable' });
  assert.equal((await one.bucket('unheard-b'))?.owner, 'alice');
  await as('alice').put('unheard-b', 'k');

  way.losing = () => false;
  way.refusing = ({ method, path }) => (method === 'PUT' && path === '/never-b' ? 403 : undefined);
  await assert.rejects(store.createBucket(bucket('never-b')), { code: 'unavailable' });
  const claim = `.claims/${hash('sha256', 'bucket/never-b')}`;
  const { head } = storeClient(minio, ROOT);
  await assert.rejects(head('oscar-staging', claim), { name: 'NotFound' }, 'there is nothing to finish');
});

/** The names that a process had printed when it was killed, shortly after the last one. */
async function killedAfter(prefix: string, buckets: number, ms: number): Promise<string[]> {
  const child = spawn(process.execPath, [CHILD, minio.endpoint, prefix, String(LEASE)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const names: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    names.push(line);
    if (names.length === buckets) setTimeout(() => child.kill('SIGKILL'), ms);
  }
  await exited;
  return names;
}
