import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import {
  BUCKET_OWNER_ACTIONS,
  BUCKET_READ_ACTIONS,
  type BucketAccessFacts,
  canSeeBucket,
  isAllowed,
  MANAGER_ACTIONS,
  OBJECT_ACTIONS,
  readPolicy,
  type S3Action,
  type S3Identity,
} from './authorization.ts';

const ALL: readonly S3Action[] = [
  ...OBJECT_ACTIONS,
  ...BUCKET_READ_ACTIONS,
  ...BUCKET_OWNER_ACTIONS,
  ...MANAGER_ACTIONS,
];

const bucket = (facts: Partial<BucketAccessFacts> = {}): BucketAccessFacts => ({
  name: 'photos',
  owner: 'ana',
  visibility: 'private',
  allowedUsers: [],
  ...facts,
});
const user = (name: string): S3Identity => ({ kind: 'user', user: name });
const policy = (actions: string | string[], resources: string | string[], rest: object = {}) =>
  readPolicy(
    JSON.stringify({
      Version: '2012-10-17',
      Statement: [{ Effect: 'Allow', Action: actions, Resource: resources, ...rest }],
    }),
  );

const cases: {
  name: string;
  who: S3Identity;
  facts?: Partial<BucketAccessFacts>;
  may: S3Action[];
  mayNot: S3Action[];
}[] = [
  {
    name: 'the owner may do everything except the actions of the manager',
    who: user('ana'),
    may: [...OBJECT_ACTIONS, ...BUCKET_READ_ACTIONS, ...BUCKET_OWNER_ACTIONS],
    mayNot: [...MANAGER_ACTIONS],
  },
  { name: 'another user has no access to a private bucket', who: user('ben'), may: [], mayNot: [...ALL] },
  {
    name: 'a user in the list of a private bucket has no access',
    who: user('ben'),
    facts: { allowedUsers: ['ben'] },
    may: [],
    mayNot: [...ALL],
  },
  {
    name: 'a user in the list of a restricted bucket may read and write objects, but not change the bucket',
    who: user('ben'),
    facts: { visibility: 'restricted', allowedUsers: ['ben'] },
    may: ['s3:ListBucket', 's3:GetObject', 's3:PutObject', 's3:DeleteObject'],
    mayNot: [...BUCKET_OWNER_ACTIONS, ...MANAGER_ACTIONS],
  },
  {
    name: 'a user who is not in the list of a restricted bucket has no access',
    who: user('cem'),
    facts: { visibility: 'restricted', allowedUsers: ['ben'] },
    may: [],
    mayNot: [...ALL],
  },
  {
    name: 'every user may read and write objects of a public bucket, but not change the bucket',
    who: user('cem'),
    facts: { visibility: 'public' },
    may: [...OBJECT_ACTIONS, ...BUCKET_READ_ACTIONS],
    mayNot: [...BUCKET_OWNER_ACTIONS, ...MANAGER_ACTIONS],
  },
  {
    name: 'a request without a signature is denied, also for a public bucket',
    who: { kind: 'anonymous' },
    facts: { visibility: 'public' },
    may: [],
    mayNot: [...ALL],
  },
  { name: 'the manager may do everything', who: { kind: 'manager' }, may: [...ALL], mayNot: [] },
  {
    name: 'a user has no access to a bucket of the manager, even as its owner or if it is public',
    who: user('ana'),
    facts: { name: 'oscar-staging-1', visibility: 'public' },
    may: [],
    mayNot: [...ALL],
  },
  {
    name: 'a job may do what its policy allows in a bucket of the manager',
    who: { kind: 'job', user: 'ana', policy: policy('s3:GetObject', 'arn:aws:s3:::oscar-staging/*') },
    facts: { name: 'oscar-staging', owner: 'oscar-manager' },
    may: ['s3:GetObject'],
    mayNot: ['s3:PutObject', 's3:DeleteObject'],
  },
  {
    name: 'a job whose policy allows everything is denied the actions of the manager',
    who: { kind: 'job', user: 'ana', policy: policy('s3:*', 'arn:aws:s3:::*') },
    may: ['s3:GetObject', 's3:PutObject'],
    mayNot: [...MANAGER_ACTIONS],
  },
  {
    name: 'a session has no more rights than its user',
    who: { kind: 'session', user: 'ben', policy: policy('s3:*', 'arn:aws:s3:::*') },
    may: [],
    mayNot: [...ALL],
  },
  {
    name: 'a session has no more rights than its policy',
    who: { kind: 'session', user: 'ana', policy: policy('s3:GetObject', 'arn:aws:s3:::photos/*') },
    may: ['s3:GetObject'],
    mayNot: ['s3:PutObject', 's3:ListBucket', 's3:DeleteBucket'],
  },
];
for (const { name, who, facts, may, mayNot } of cases) {
  test(`access: ${name}`, () => {
    const access = (action: S3Action) => ({
      action,
      bucket: bucket(facts),
      key: (OBJECT_ACTIONS as readonly string[]).includes(action) ? 'in/a.jpg' : '',
    });
    assert.deepEqual(
      may.filter((action) => !isAllowed(who, access(action))),
      [],
      'should be allowed',
    );
    assert.deepEqual(
      mayNot.filter((action) => isAllowed(who, access(action))),
      [],
      'should not be allowed',
    );
  });
}

test('access: a job reads, writes and lists only what its policy allows', () => {
  const job: S3Identity = {
    kind: 'job',
    user: 'ana',
    policy: readPolicy(
      JSON.stringify({
        Version: '2012-10-17',
        Statement: [
          { Effect: 'Allow', Action: ['s3:GetObject'], Resource: ['arn:aws:s3:::photos/in/a.jpg'] },
          { Effect: 'Allow', Action: ['s3:PutObject'], Resource: ['arn:aws:s3:::photos/out/*'] },
          {
            Effect: 'Allow',
            Action: 's3:ListBucket',
            Resource: 'arn:aws:s3:::photos',
            Condition: { StringLike: { 's3:prefix': ['out/*'] } },
          },
          { Effect: 'Deny', Action: 's3:*', Resource: 'arn:aws:s3:::photos/out/private/*' },
        ],
      }),
    ),
  };
  const may = (action: S3Action, key: string, prefix?: string) =>
    isAllowed(job, { action, bucket: bucket(), key, ...(prefix !== undefined && { prefix }) });
  assert.ok(may('s3:GetObject', 'in/a.jpg'));
  assert.ok(!may('s3:GetObject', 'in/b.jpg'));
  assert.ok(!may('s3:PutObject', 'in/a.jpg'));
  assert.ok(may('s3:PutObject', 'out/x'));
  assert.ok(!may('s3:GetObject', 'out/x'));
  assert.ok(!may('s3:PutObject', 'out/private/x'));
  assert.ok(may('s3:ListBucket', '', 'out/2026'));
  assert.ok(!may('s3:ListBucket', '', 'in/'));
  assert.ok(!may('s3:ListBucket', ''));
  assert.ok(!canSeeBucket(job, bucket()));
});

test('policy: adding a Deny never allows more, adding an Allow never allows less', () => {
  const anyStatement = fc.record({
    Effect: fc.constantFrom('Allow', 'Deny'),
    Action: fc.constantFrom('s3:*', 's3:GetObject', 's3:Put*', 's3:ListBucket'),
    Resource: fc.constantFrom(
      'arn:aws:s3:::*',
      'arn:aws:s3:::photos',
      'arn:aws:s3:::photos/*',
      'arn:aws:s3:::photos/in/?',
    ),
  });
  const access = fc.record({
    action: fc.constantFrom<S3Action>('s3:GetObject', 's3:PutObject', 's3:ListBucket'),
    key: fc.constantFrom('', 'in/a', 'in/ab', 'out/a'),
  });
  fc.assert(
    fc.property(
      fc.array(anyStatement, { minLength: 1, maxLength: 4 }),
      anyStatement,
      access,
      (before, added, { action, key }) => {
        const may = (Statement: object[]) =>
          isAllowed(
            { kind: 'job', user: 'ana', policy: readPolicy(JSON.stringify({ Version: '2012-10-17', Statement })) },
            { action, bucket: bucket(), key },
          );
        const [first, second] = [may(before), may([...before, added])];
        assert.ok(added.Effect === 'Allow' ? !first || second : first || !second);
      },
    ),
  );
});

const REFUSED = [
  { name: 'is not JSON', text: '{' },
  { name: 'has an old version', text: '{"Version":"2008-10-17","Statement":[]}' },
  { name: 'has no statement', text: '{"Version":"2012-10-17","Statement":[]}' },
  { name: 'has NotAction', text: statement({ NotAction: 's3:GetObject' }) },
  { name: 'has NotResource', text: statement({ NotResource: '*' }) },
  { name: 'has a Principal', text: statement({ Principal: '*' }) },
  { name: 'has an unknown Effect', text: statement({ Effect: 'Maybe' }) },
  { name: 'is about another service', text: statement({ Action: 'iam:*' }) },
  { name: 'has a resource of another service', text: statement({ Resource: 'arn:aws:iam:::x' }) },
  { name: 'has an unknown condition', text: statement({ Condition: { IpAddress: { 'aws:SourceIp': '10.0.0.0/8' } } }) },
  {
    name: 'has a condition on something else',
    text: statement({ Condition: { StringLike: { 'aws:username': '*' } } }),
  },
];
function statement(changes: object): string {
  const base = { Effect: 'Allow', Action: 's3:GetObject', Resource: 'arn:aws:s3:::b/*' };
  return JSON.stringify({ Version: '2012-10-17', Statement: [{ ...base, ...changes }] });
}
for (const { name, text } of REFUSED) {
  test(`policy: a document that ${name} is rejected`, () => {
    assert.throws(() => readPolicy(text), { code: 'MalformedPolicy' });
  });
}
