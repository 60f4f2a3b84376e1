import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { readDefinition, type Service } from '../../model/service/index.ts';
import { ALICE, BOB, FewBuckets } from '../jobs.fixture.ts';
import { type Claimant, readableFile } from './store-access.ts';

const CAROL = 'carol-0003';

/** A service of alice that reads `in/uploads` and gives bob a bucket of his own. */
function service(more: Record<string, unknown> = {}): Service {
  const { definition } = readDefinition({
    name: 'demo',
    image: 'busybox',
    script: 'true',
    visibility: 'restricted',
    allowed_users: [BOB],
    isolation_level: 'USER',
    input: [{ storage_provider: 'minio.default', path: 'inbox/uploads' }],
    ...more,
  });
  return { uid: 'uid-1', definition, owner: ALICE, ownerName: 'Alice', namespace: 'n', token: new Secret('t') };
}

const BOBS = `inbox-${BOB}`;
const buckets = new FewBuckets();
buckets.add('inbox', ALICE, { madeFor: { uid: 'uid-1', service: 'demo' } });
buckets.add(BOBS, BOB, { madeFor: { uid: 'uid-1', service: 'demo' } });
buckets.add('secrets', ALICE);
buckets.add('of-bob', BOB);
buckets.add('open', CAROL, { visibility: 'public' });
buckets.add('shared', CAROL, { visibility: 'restricted', allowedUsers: [BOB] });

const object = (bucket: string, key: string, provider?: string) =>
  ({ type: 'minio', bucket, key, time: '', ...(provider !== undefined && { provider }) }) as const;

const byStore: Claimant = { principal: ALICE, trigger: 'storage', byToken: false };
const byToken: Claimant = { principal: ALICE, trigger: 'job', byToken: true };
const runByToken: Claimant = { principal: ALICE, trigger: 'run', byToken: true };
const by = (principal: string, trigger: 'job' | 'run' = 'job'): Claimant => ({ principal, trigger, byToken: false });

const cases: [string, Claimant, string, string, boolean][] = [
  ['an event of the store under an input', byStore, 'inbox', 'uploads/a', true],
  ['an event of the store in the bucket of an allowed user', byStore, BOBS, 'uploads/a', true],
  ['an event of the store elsewhere in the bucket', byStore, 'inbox', 'other/a', false],
  ['the token and a file under an input', byToken, 'inbox', 'uploads/a', true],
  ['the token and a private bucket of the owner (S3)', byToken, 'secrets', 'uploads/a', false],
  ['the token and a bucket of somebody else', byToken, 'of-bob', 'uploads/a', false],
  ['the token and a public bucket', byToken, 'open', 'uploads/a', false],
  ['the token and a call whose answer is shown', runByToken, 'inbox', 'uploads/a', false],
  ['a user and their own bucket', by(BOB), 'of-bob', 'x', true],
  ['a user and a bucket shared with them', by(BOB), 'shared', 'x', true],
  ['a user and a public bucket', by(BOB, 'run'), 'open', 'x', true],
  ['a user and the private bucket of the owner', by(BOB), 'secrets', 'x', false],
  ['a user and the bucket of another user of the service', by(CAROL), BOBS, 'uploads/a', false],
  ['the owner and the bucket of another user of the service', by(ALICE), BOBS, 'uploads/a', false],
  ['a bucket that is not there', by(ALICE), 'nowhere', 'x', false],
];
for (const [name, job, bucket, key, allowed] of cases) {
  test(`rights: ${name}: ${allowed ? 'the file' : 'the event is data'}`, async () => {
    const file = await readableFile(object(bucket, key), job, service(), buckets);
    assert.deepEqual(file, allowed ? { store: 'minio.default', bucket, key } : undefined);
  });
}

test('rights: a forwarded event may name the provider with or without its type', async () => {
  for (const provider of ['default', 'minio.default', '']) {
    const file = await readableFile(object('inbox', 'uploads/a', provider), byStore, service(), buckets);
    assert.equal(file?.store, 'minio.default');
  }
});

const elsewhere = service({
  storage_providers: { minio: { archive: { endpoint: 'https://a.example', access_key: 'k', secret_key: 's' } } },
});
const archived = object('b', 'k', 'archive');

test("rights: only jobs of the owner read with the keys of the definition's providers", async () => {
  assert.equal((await readableFile(archived, by(ALICE), elsewhere, buckets))?.store, 'minio.archive');
  for (const job of [by(BOB), byToken, runByToken]) {
    assert.equal(await readableFile(archived, job, elsewhere, buckets), undefined);
  }
  assert.equal(await readableFile(archived, by(ALICE), service(), buckets), undefined);
});

test('rights: a dCache file is below the path of its input', async () => {
  const dcache = service({
    input: [{ storage_provider: 'webdav.dcache', path: 'lab/raw' }],
    storage_providers: { webdav: { dcache: { hostname: 'd.example', login: 'l', password: 'p' } } },
  });
  const file = await readableFile({ type: 'dcache', name: 'a/b.dat' }, byToken, dcache, buckets);
  assert.deepEqual(file, { store: 'webdav.dcache', bucket: '', key: 'lab/raw/a/b.dat' });
  for (const name of ['../x', 'a//b', './x']) {
    assert.equal(await readableFile({ type: 'dcache', name }, byToken, dcache, buckets), undefined);
  }
  assert.equal(await readableFile({ type: 'dcache', name: 'a' }, byToken, service(), buckets), undefined);
});
