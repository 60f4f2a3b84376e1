import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketTaggingCommand,
  PutBucketNotificationConfigurationCommand,
  PutBucketPolicyCommand,
  PutBucketTaggingCommand,
} from '@aws-sdk/client-s3';
import { AssumeRoleCommand, STSClient } from '@aws-sdk/client-sts';
import { encryptAdminBody, MinioAdmin } from '../../src/adapters/object-stores/minio/admin-api.ts';
import type { MinioStore } from '../../src/adapters/object-stores/minio/index.ts';
import { MANAGER_ACCOUNT, ManagerAccount } from '../../src/adapters/object-stores/minio/manager-account.ts';
import { sessionPolicy } from '../../src/adapters/object-stores/s3/job-keys.ts';
import { SignedHttpClient } from '../../src/adapters/object-stores/s3/signed-http-client.ts';
import { Secret } from '../../src/lib/secret.ts';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import { bucket, keysOf, storeClient } from '../../src/ports/conformance/object-store-under-test.fixture.ts';
import type { IssuedKeys, ObjectStore } from '../../src/ports/index.ts';
import { Minio, ROOT } from './minio.ts';
import { openStore } from './under-test.ts';

let minio: Minio;
let store: ObjectStore & Pick<MinioStore, 'adopt' | 'close'>;
let requests: SignedHttpClient;
let admin: MinioAdmin;
before(async () => {
  minio = await Minio.start();
  store = openStore(minio);
  requests = new SignedHttpClient({ endpoint: minio.endpoint, region: minio.region, verify: true });
  admin = new MinioAdmin({ requests, keys: ROOT });
  for (const uid of ['alice', 'bob', 'carol']) await store.putUser(uid, keysOf(uid));
});
after(async () => {
  store.close();
  requests.close();
  await minio.stop();
});

const as = (uid: string) => storeClient(minio, keysOf(uid));
const root = () => storeClient(minio, ROOT).client;
const tags = async (Bucket: string) => {
  const { TagSet = [] } = await root().send(new GetBucketTaggingCommand({ Bucket }));
  return Object.fromEntries(TagSet.map(({ Key, Value }) => [Key, Value]));
};
const allows = async (policy: string) =>
  (await admin.policy(policy))?.Statement.flatMap(({ Effect, Resource }) => (Effect === 'Allow' ? Resource : [])) ?? [];

describe('job keys', () => {
  test("they are sessions of the manager's account, never of root or a user (S4)", async () => {
    await store.createBucket(bucket('keys-b'));
    const keys = await store.issue({ read: [{ bucket: 'keys-b', key: 'k' }], write: [] }, 60, 'alice');
    const [, claims = ''] = keys.sessionToken.reveal().split('.');
    const { parent } = JSON.parse(Buffer.from(claims, 'base64url').toString()) as { parent: string };
    assert.equal(parent, MANAGER_ACCOUNT);
    assert.equal(keys.revocable, false);
    const minutes = (keys.expiresAt.getTime() - Date.now()) / 60_000;
    assert.ok(minutes > 14 && minutes < 16, 'the shortest that the store has');
  });

  test('they cover many objects, and no others', async () => {
    await store.createBucket(bucket('doubt-b'));
    const read = Array.from({ length: 200 }, (_, i) => ({ bucket: 'doubt-b', key: `out/a result of the job ${i}` }));
    const write = [{ bucket: 'doubt-b', prefix: 'out/' }];
    for (const key of ['out/a result of the job 7', 'in/secret']) await as('alice').put('doubt-b', key);
    const client = storeClient(minio, await store.issue({ read, write }, 900, 'alice'));
    await client.head('doubt-b', 'out/a result of the job 7');
    await assert.rejects(client.head('doubt-b', 'in/secret'));
    const far = read.map(({ key }) => ({ bucket: 'doubt-b', key: `in/${key}` }));
    await assert.rejects(store.issue({ read: far, write }, 900, 'alice'), { code: 'too-large' });
  });
});

test('job keys: they cover the longest names, in any script', async () => {
  const write = [{ bucket: 'keys-b', prefix: 'out/' }];
  for (const text of ['a', 'é', '🐄', '&', '\u2028']) {
    const scope = (length: number) => ({ read: [{ bucket: 'keys-b', key: `out/${text.repeat(length)}` }], write });
    let longest = 1;
    while (sessionPolicy(scope(longest + 1)).includes(text.repeat(2))) longest++;
    assert.ok(longest > 200, text);
    await store.issue(scope(longest), 900, 'alice');
    await store.issue(scope(longest + 1), 900, 'alice');
  }
});

describe('job keys cannot create other keys', () => {
  let account: ManagerAccount;
  before(async () => {
    account = new ManagerAccount(admin, ROOT);
    await account.ensure();
  });

  /** A session whose own policy allows everything, as all sessions may in releases with CVE-2025-62506. */
  const session = () =>
    account.withKeys(async ({ accessKey, secretKey }) => {
      const credentials = { accessKeyId: accessKey.reveal(), secretAccessKey: secretKey.reveal() };
      const sts = new STSClient({ endpoint: minio.endpoint, region: minio.region, credentials });
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', Action: ['admin:*'] }] });
      const { Credentials } = await sts.send(new AssumeRoleCommand({ Policy, RoleArn: 'arn:x', RoleSessionName: 'x' }));
      return {
        accessKey: new Secret(Credentials?.AccessKeyId ?? ''),
        secretKey: new Secret(Credentials?.SecretAccessKey ?? ''),
        sessionToken: new Secret(Credentials?.SessionToken ?? ''),
      };
    });
  const makeKeys = async (keys: Pick<IssuedKeys, 'accessKey' | 'secretKey' | 'sessionToken'>, targetUser?: string) => {
    const body = await encryptAdminBody(keys.secretKey, JSON.stringify({ targetUser, name: 'more' }));
    const headers = { 'x-amz-security-token': keys.sessionToken.reveal() };
    await requests.send({ method: 'PUT', path: '/minio/admin/v3/add-service-account', headers, body }, keys);
  };

  test('by the session policy and by the account policy', async () => {
    const ofJob = await store.issue({ read: [{ bucket: 'keys-b', key: 'k' }], write: [] }, 60, 'alice');
    for (const keys of [ofJob, await session()]) {
      for (const user of [undefined, MANAGER_ACCOUNT])
        await assert.rejects(makeKeys(keys, user), { errorCode: 'AccessDenied' });
    }
  });

  test('at a store that an older manager configured', async (t) => {
    const everything = { Effect: 'Allow', Action: ['s3:*'], Resource: ['arn:aws:s3:::*'] };
    await admin.putPolicy(MANAGER_ACCOUNT, { Version: '2012-10-17', Statement: [everything] });
    await makeKeys(await session());
    const next = openStore(minio);
    t.after(() => next.close());
    await next.ensureStaging();
    await assert.rejects(makeKeys(await session()), { errorCode: 'AccessDenied' });
  });
});

describe('bucket access', () => {
  test('bucket rights: users can use a shared bucket but not change it, so no user can take over a public one (S8)', async () => {
    await store.createBucket(bucket('public-b', { visibility: 'public' }));
    for (const uid of ['alice', 'bob']) {
      const { client, put } = as(uid);
      await put('public-b', `of-${uid}`);
      const Bucket = 'public-b';
      const Policy = JSON.stringify({
        Version: '2012-10-17',
        Statement: [{ Effect: 'Allow', Principal: '*', Action: 's3:GetObject', Resource: 'arn:aws:s3:::public-b/*' }],
      });
      const Tagging = { TagSet: [{ Key: 'owner', Value: uid }] };
      const denied = { name: 'AccessDenied' };
      await assert.rejects(client.send(new PutBucketTaggingCommand({ Bucket, Tagging })), denied);
      await assert.rejects(client.send(new PutBucketPolicyCommand({ Bucket, Policy })), denied);
      const NotificationConfiguration = {};
      const unwatch = new PutBucketNotificationConfigurationCommand({ Bucket, NotificationConfiguration });
      await assert.rejects(client.send(unwatch), denied);
      await assert.rejects(client.send(new DeleteBucketCommand({ Bucket })), denied);
    }
  });

  test('the policies have the names that the Go manager uses', async () => {
    await store.createBucket(bucket('mine-b', { owner: 'carol', madeFor: { uid: 'uid-1', service: 'svc' } }));
    await store.createBucket(bucket('ours-b', { owner: 'carol', visibility: 'restricted', allowedUsers: ['bob'] }));
    await store.createBucket(bucket('all-b', { owner: 'carol', visibility: 'public' }));
    const all = (name: string) => `arn:aws:s3:::${name}/*`;
    assert.deepEqual(new Set(await allows('carol')), new Set([all('mine-b'), all('ours-b')]));
    assert.deepEqual(await allows('ours-b'), [all('ours-b')]);
    assert.ok((await allows('all_users_group')).includes(all('all-b')));
    assert.deepEqual((await admin.user('carol'))?.policies, ['carol']);
    assert.deepEqual(await admin.group('ours-b'), { members: ['bob'], policies: ['ours-b'] });
    assert.deepEqual(await tags('mine-b'), {
      owner: 'carol',
      owner_name: 'Alice',
      from_service: 'svc',
      oscar_service_uid: 'uid-1',
    });
    await store.createBucket(bucket('admins-b', { owner: 'cluster_admin', ownerName: 'oscar' }));
    assert.equal((await tags('admins-b'))['owner'], 'oscar');
    await store.removeBucket('ours-b');
    assert.equal(await admin.group('ours-b'), undefined);
    assert.equal(await admin.policy('ours-b'), undefined);
    await store.removeBucket('mine-b');
    assert.deepEqual(await allows('carol'), []);
  });

  test("only the users that it is shared with have access, also if there are none or it is the administrator's", async () => {
    await store.createBucket(bucket('few-b', { owner: 'cluster_admin', visibility: 'restricted', allowedUsers: [] }));
    await assert.rejects(as('bob').put('few-b', 'k'));
    const shown = async () => {
      const { visibility, allowedUsers } = (await store.bucket('few-b')) ?? {};
      return [visibility, allowedUsers];
    };
    assert.deepEqual(await shown(), ['restricted', []]);
    await store.changeBucket('few-b', { allowedUsers: ['bob', 'carol'] });
    await as('bob').put('few-b', 'k');
    await store.changeBucket('few-b', { allowedUsers: ['carol'] });
    await assert.rejects(as('bob').get('few-b', 'k'));
    assert.deepEqual(await shown(), ['restricted', ['carol']]);
    await store.changeBucket('few-b', { visibility: 'public' });
    await as('bob').get('few-b', 'k');
    await store.changeBucket('few-b', { visibility: 'private' });
    await assert.rejects(as('carol').get('few-b', 'k'));
  });

  test('buckets of a Go manager work, and from their first change on have only our rights', async () => {
    const make = async (name: string, owner: string) => {
      await root().send(new CreateBucketCommand({ Bucket: name }));
      const TagSet = [
        { Key: 'owner', Value: owner },
        { Key: 'owner_name', Value: 'Zoe' },
        { Key: 'from_service', Value: 'old' },
      ];
      await root().send(new PutBucketTaggingCommand({ Bucket: name, Tagging: { TagSet } }));
    };
    const everything = (...names: string[]) => ({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: ['s3:*'], Resource: names.map((name) => `arn:aws:s3:::${name}/*`) }],
    });
    await store.putUser('zoe', keysOf('zoe'));
    for (const name of ['go-private', 'go-restricted', 'go-public']) await make(name, 'zoe');
    await admin.putPolicy('zoe', everything('go-private', 'go-restricted'));
    await admin.attach(['zoe'], { user: 'zoe' });
    await admin.putPolicy('go-restricted', everything('go-restricted'));
    await admin.addMembers('go-restricted', ['bob']);
    await admin.attach(['go-restricted'], { group: 'go-restricted' });
    const already = [...((await allows('all_users_group')) ?? [])].map((arn) => /:::(.*)\//.exec(arn ?? '')?.[1] ?? '');
    await admin.putPolicy('all_users_group', everything(...already, 'go-public'));

    const seen = async (name: string) => {
      const { owner, ownerName, visibility, allowedUsers } = (await store.bucket(name)) ?? {};
      return [owner, ownerName, visibility, allowedUsers];
    };
    assert.deepEqual(await seen('go-private'), ['zoe', 'Zoe', 'private', []]);
    assert.deepEqual(await seen('go-restricted'), ['zoe', 'Zoe', 'restricted', ['bob']]);
    assert.deepEqual(await seen('go-public'), ['zoe', 'Zoe', 'public', []]);
    const names = (await store.buckets({ visibleTo: 'zoe' })).items.map(({ name }) => name);
    assert.deepEqual(
      names.filter((name) => name.startsWith('go-')),
      ['go-private', 'go-public', 'go-restricted'],
    );

    await store.changeBucket('go-private', { visibility: 'public' });
    assert.deepEqual(await seen('go-private'), ['zoe', 'Zoe', 'public', []]);
    for (const policy of ['zoe', 'all_users_group']) {
      const actions = (await admin.policy(policy))?.Statement.flatMap(({ Action = [] }) => Action) ?? [];
      assert.ok(!actions.includes('s3:*'), policy);
    }
  });
});

describe('names', () => {
  test('users and policies that exist already are kept apart (S15)', async () => {
    const builtIn = await admin.policy('consoleAdmin');
    await store.putUser('consoleAdmin', keysOf('consoleAdmin'));
    await store.createBucket(bucket('sly-b', { owner: 'consoleAdmin' }));
    assert.deepEqual(await admin.policy('consoleAdmin'), builtIn);
    assert.deepEqual((await admin.user('consoleAdmin'))?.policies, ['consoleAdmin:oscar']);
    await as('consoleAdmin').put('sly-b', 'k');
    await assert.rejects(as('consoleAdmin').put('public-b-of-others', 'k'));
  });

  test('a bucket with the name of a user does not give that user access', async () => {
    await store.putUser('uid-of-dave', keysOf('uid-of-dave'));
    await store.createBucket(bucket('daves-b', { owner: 'uid-of-dave' }));
    const sly = bucket('uid-of-dave', { owner: 'bob', visibility: 'restricted', allowedUsers: ['bob'] });
    await assert.rejects(store.createBucket(sly), { code: 'conflict', message: /another name/ });
    assert.equal(await store.bucket('uid-of-dave'), undefined, 'and nothing is left of it');
    assert.deepEqual(await allows('bob'), []);
    await assert.rejects(as('bob').put('daves-b', 'k'));
    await as('uid-of-dave').put('daves-b', 'k');

    await store.createBucket(
      bucket('uid-of-erin', { owner: 'bob', visibility: 'restricted', allowedUsers: ['carol'] }),
    );
    await store.createBucket(bucket('erins-b', { owner: 'uid-of-erin' }));
    await store.putUser('uid-of-erin', keysOf('uid-of-erin'));
    await as('uid-of-erin').put('erins-b', 'k');
    await assert.rejects(as('carol').put('erins-b', 'k'));
    assert.equal((await store.bucket('uid-of-erin'))?.visibility, 'restricted');
  });

  test("a bucket named like the uid of its owner gives no access to the owner's other buckets", async () => {
    const gina = 'uid-of-gina';
    await store.putUser(gina, keysOf(gina));
    const shared = { visibility: 'restricted', allowedUsers: ['bob'] } as const;
    await assert.rejects(store.createBucket(bucket(gina, { owner: gina, ...shared })), { code: 'conflict' });
    assert.equal(await store.bucket(gina), undefined);
    await store.createBucket(bucket(gina, { owner: gina }));
    await assert.rejects(store.changeBucket(gina, shared), { code: 'conflict', message: /another name/ });
    await store.createBucket(bucket('ginas-b', { owner: gina }));
    for (const name of [gina, 'ginas-b']) {
      await as(gina).put(name, 'k');
      await assert.rejects(as('bob').get(name, 'k'));
    }

    // The state that an earlier manager, which did not check, has left.
    await admin.addMembers(gina, ['bob']);
    await admin.attach([gina], { group: gina });
    await as('bob').get('ginas-b', 'k');
    await store.changeBucket(gina, { visibility: 'private' });
    for (const name of [gina, 'ginas-b']) {
      await as(gina).get(name, 'k');
      await assert.rejects(as('bob').get(name, 'k'));
    }
  });

  test('the name of a bucket whose sharing was interrupted can be used again', async () => {
    const shared = bucket('left-b', { visibility: 'restricted', allowedUsers: ['bob'] });
    // Interrupted before the group has the policy. The next create or remove of the bucket detaches it everywhere.
    const Resource = ['arn:aws:s3:::left-b/*'];
    await admin.putPolicy('left-b', {
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: ['s3:*'], Resource }],
    });
    await store.removeBucket('left-b');
    assert.deepEqual(await allows('left-b'), []);
    assert.equal(await store.createBucket(shared), 'created');
    await as('bob').put('left-b', 'k');
  });

  test('the names of the manager and of root are reserved', async () => {
    for (const uid of [MANAGER_ACCOUNT, ROOT.accessKey.reveal()]) {
      await assert.rejects(store.putUser(uid, keysOf(uid)), { code: 'conflict', message: /own account/ });
    }
    await store.ensureStaging();
  });

  test('users whose name MinIO does not allow own buckets without keys; sharing with them is rejected', async () => {
    assert.equal(await store.createBucket(bucket('odd-b', { owner: 'a=b,c|d é' })), 'created');
    assert.equal((await store.bucket('odd-b'))?.owner, 'a=b,c|d é');
    await assert.rejects(store.putUser('a=b', keysOf('a=b')), { code: 'conflict' });
    const shared = { visibility: 'restricted', allowedUsers: ['a=b'] } as const;
    await assert.rejects(store.changeBucket('odd-b', shared), { code: 'conflict', message: /"a=b"/ });
  });
});

test('bucket access: a bucket that was deleted outside and created again gives no access to its former owner', async () => {
  await store.createBucket(bucket('second-b', { owner: 'bob' }));
  await root().send(new DeleteBucketCommand({ Bucket: 'second-b' }));
  await store.createBucket(bucket('second-b', { owner: 'carol' }));
  await as('carol').put('second-b', 'k');
  await assert.rejects(as('bob').get('second-b', 'k'));
});

test('bucket access: a bucket that a MinIO administrator created belongs to the administrator', async () => {
  await root().send(new CreateBucketCommand({ Bucket: 'by-hand' }));
  const outcome = await store.createBucket(bucket('by-hand'));
  assert.ok(outcome !== 'created');
  assert.deepEqual([outcome.exists.owner, outcome.exists.visibility], ['cluster_admin', 'private']);
  await assert.rejects(as('alice').put('by-hand', 'k'));
});

test('tls: a self-signed certificate is accepted only if the operator turned verification off', async (t) => {
  const secure = await Minio.start({ tls: true });
  t.after(() => secure.stop());
  const [strict, lax] = [openStore(secure), openStore(secure, { verify: false })];
  await assert.rejects(strict.createBucket(bucket('tls-b')), {
    code: 'unavailable',
    message: /certificate of .* is not valid/,
  });
  assert.equal(await lax.createBucket(bucket('tls-b')), 'created');
  strict.close();
  lax.close();
});

test('users: they are created again in a store that lost them', async () => {
  await store.putUser('frank', keysOf('frank'));
  await requests.send({ method: 'DELETE', path: '/minio/admin/v3/remove-user', query: { accessKey: 'frank' } }, ROOT);
  await requests.send(
    { method: 'DELETE', path: '/minio/admin/v3/remove-user', query: { accessKey: MANAGER_ACCOUNT } },
    ROOT,
  );
  // A caller who comes some time after the account was last seen gets "try again", because the store may have just started.
  await eventually(() => store.createBucket(bucket('franks-b', { owner: 'frank' })), 60_000);
  await store.putUser('frank', keysOf('frank'));
  await as('frank').put('franks-b', 'k');
});

describe("buckets of a Go manager's service", () => {
  const TagSet = [
    { Key: 'owner', Value: 'alice' },
    { Key: 'from_service', Value: 'plants' },
    { Key: 'cost-centre', Value: '42' },
  ];
  const ours = { uid: 'u-1', service: 'plants' };
  const make = async (Bucket: string) => {
    await root().send(new CreateBucketCommand({ Bucket }));
    await root().send(new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet } }));
  };

  test('a bucket is adopted once, and the service finds it', async () => {
    await make('from-go-b');
    assert.equal(await store.adopt('from-go-b', ['alice'], ours), true);
    assert.equal(await store.adopt('from-go-b', ['alice'], { ...ours, uid: 'u-2' }), false);
    assert.deepEqual((await store.bucket('from-go-b'))?.madeFor, ours);
    assert.deepEqual(
      (await store.buckets({ madeFor: 'u-1' })).items.map(({ name }) => name),
      ['from-go-b'],
    );
    assert.equal((await tags('from-go-b'))['cost-centre'], '42', 'what else is said of it stays');
  });

  test('a bucket of another user or service is left alone', async () => {
    await make('not-ours-b');
    assert.equal(await store.adopt('not-ours-b', ['bob'], ours), false);
    assert.equal(await store.adopt('not-ours-b', ['alice'], { ...ours, service: 'weeds' }), false);
    assert.equal(await store.adopt('no-such-b', ['alice'], ours), false);
    assert.equal((await store.bucket('not-ours-b'))?.madeFor, undefined);
  });
});
