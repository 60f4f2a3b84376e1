import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { PolicyDocument, Statement } from './admin-api.ts';
import {
  isPolicyOnlyFor,
  listPolicyBuckets,
  policyNamesBucket,
  samePolicy,
  withBuckets,
  withoutBucket,
} from './bucket-policies.ts';

const document = (...Statement: Statement[]): PolicyDocument => ({
  Version: '2012-10-17',
  Statement,
});
const allow = (Action: string[], ...Resource: string[]) => ({ Effect: 'Allow', Action, Resource });
const all = (bucket: string) => `arn:aws:s3:::${bucket}/*`;

describe('bucket policy:', () => {
  test('has one statement for all buckets, whatever statements it had', () => {
    const gos = document(allow(['s3:*'], all('one'), all('two')));
    const { Statement } = withBuckets(gos, new Set(['two', 'three']));
    assert.deepEqual(
      Statement.map(({ Effect, Resource }) => [Effect, Resource]),
      [['Allow', [all('three'), all('two')]]],
    );
    assert.ok(!Statement[0]?.Action?.some((action) => /\*|Policy|Notification|PutBucket|DeleteBucket/.test(action)));
  });

  test('keeps what an operator added', () => {
    const added = allow(['s3:GetObject'], 'arn:aws:s3:::shared/pictures/*');
    const denied = { Effect: 'Deny', Action: ['s3:DeleteObject'], Resource: [all('one')] };
    const next = withBuckets(document(allow(['s3:*'], all('one')), added, denied), new Set(['two']));
    assert.deepEqual(next.Statement.slice(1), [added, denied]);
    assert.deepEqual(listPolicyBuckets(next), new Set(['two']));
  });

  const fromHere = { Condition: { IpAddress: { 'aws:SourceIp': ['10.0.0.0/8'] } } };
  for (const [name, theirs] of [
    ['that allows less', allow(['s3:GetObject'], all('ref'))],
    ['that allows less under a condition', { ...allow(['s3:GetObject'], all('ref')), ...fromHere }],
    ['that allows everything under a condition', { ...allow(['s3:*'], all('ref')), ...fromHere }],
    ['of all but some actions', { Effect: 'Allow', NotAction: ['s3:PutObject'], Resource: [all('ref')] }],
    ['of all but some buckets', { Effect: 'Allow', Action: ['s3:*'], NotResource: [all('ref')] }],
  ] satisfies [string, Statement][]) {
    test(`keeps a statement ${name}, which does not count as access to a bucket`, () => {
      const before = { ...document(allow(['s3:*'], all('one')), theirs), ID: 'theirs' };
      assert.deepEqual(listPolicyBuckets(before), new Set(['one']));
      const next = withBuckets(before, new Set(['one', 'two']));
      assert.deepEqual(next.Statement.slice(1), [theirs]);
      assert.equal(next.ID, 'theirs');
      assert.deepEqual(withoutBucket(before, 'one'), { ...before, Statement: [theirs] });
      assert.ok(!isPolicyOnlyFor('ref', document(theirs)));
    });
  }

  test('is managed if this manager or the Go manager wrote it, with any Sid', () => {
    const [ours = allow([])] = withBuckets(undefined, new Set(['one'])).Statement;
    const shared = allow(['s3:ListBucket', 's3:GetObject', 's3:PutObject', 's3:DeleteObject'], all('one'));
    for (const each of [ours, shared, allow(['s3:*'], all('one')), { Sid: 'x', ...ours }]) {
      assert.deepEqual(listPolicyBuckets(document(each)), new Set(['one']));
      assert.deepEqual(withBuckets(document(each), new Set(['one'])), document(ours));
    }
  });

  test('without buckets allows nothing, and accepts buckets again', () => {
    const none = withBuckets(document(allow(['s3:*'], all('one'))), new Set());
    assert.deepEqual(
      none.Statement.map(({ Effect }) => Effect),
      ['Deny'],
    );
    assert.deepEqual(listPolicyBuckets(none), new Set());
    const again = withBuckets(none, new Set(['one']));
    assert.deepEqual(
      again.Statement.map(({ Effect }) => Effect),
      ['Allow'],
    );
  });

  test('still allows the same for the other buckets after one is removed', () => {
    const readers = document(allow(['s3:GetObject'], all('one'), all('two')));
    assert.ok(policyNamesBucket('one', readers));
    assert.deepEqual(withoutBucket(readers, 'one'), document(allow(['s3:GetObject'], all('two'))));
    assert.ok(!policyNamesBucket('two', withoutBucket(withoutBucket(readers, 'one'), 'two')));
  });

  test('is equal in another order', () => {
    const one = document(allow(['s3:GetObject', 's3:PutObject'], all('one'), all('two')));
    assert.ok(samePolicy(one, document(allow(['s3:PutObject', 's3:GetObject'], all('two'), all('one')))));
    assert.ok(!samePolicy(one, document(allow(['s3:GetObject'], all('one'), all('two')))));
    assert.ok(!samePolicy(one, document(allow(['s3:GetObject', 's3:PutObject'], all('one')))));
    assert.ok(
      !samePolicy(one, document({ ...allow(['s3:GetObject', 's3:PutObject'], all('one'), all('two')), ...fromHere })),
    );
  });

  test('is for one bucket only if it names nothing else', () => {
    assert.ok(isPolicyOnlyFor('one', document(allow(['s3:*'], all('one')))));
    assert.ok(!isPolicyOnlyFor('one', document(allow(['s3:*'], all('one'), all('two')))));
    assert.ok(!isPolicyOnlyFor('one', document(allow(['s3:*'], all('one')), allow(['admin:*'], '*'))));
    assert.ok(!isPolicyOnlyFor('one', document({ Effect: 'Allow', Action: ['admin:*'] })));
  });

  test('without buckets can be reused for any bucket', () => {
    const left = withoutBucket(document(allow(['s3:*'], all('one'))), 'one');
    assert.ok(isPolicyOnlyFor('one', left));
    assert.ok(isPolicyOnlyFor('two', left));
    assert.ok(!isPolicyOnlyFor('one', document(...left.Statement, allow(['s3:*'], all('two')))));
  });
});
