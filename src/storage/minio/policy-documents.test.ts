import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bucketsIn, isOnlyFor, isSame, withBuckets, withoutBucket } from './policy-documents.ts';
import type { PolicyDocument } from './wire/admin.ts';

const document = (...Statement: PolicyDocument['Statement'][number][]): PolicyDocument => ({
  Version: '2012-10-17',
  Statement,
});
const allow = (Action: string[], ...Resource: string[]) => ({ Effect: 'Allow', Action, Resource });
const all = (bucket: string) => `arn:aws:s3:::${bucket}/*`;

describe('a policy of buckets', () => {
  test('is one statement, whatever there was', () => {
    const gos = document(allow(['s3:*'], all('one'), all('two')));
    const { Statement } = withBuckets(gos, new Set(['two', 'three']));
    assert.deepEqual(
      Statement.map(({ Effect, Resource }) => [Effect, Resource]),
      [['Allow', [all('three'), all('two')]]],
    );
    assert.ok(!Statement[0]?.Action?.some((action) => /\*|Policy|Notification|PutBucket|DeleteBucket/.test(action)));
  });

  test('keeps what an operator has added to it', () => {
    const added = allow(['s3:GetObject'], 'arn:aws:s3:::shared/pictures/*');
    const denied = { Effect: 'Deny', Action: ['s3:DeleteObject'], Resource: [all('one')] };
    const next = withBuckets(document(allow(['s3:*'], all('one')), added, denied), new Set(['two']));
    assert.deepEqual(next.Statement.slice(1), [added, denied]);
    assert.deepEqual(bucketsIn(next), new Set(['two']));
  });

  test('of no buckets allows nothing, and takes buckets again', () => {
    const none = withBuckets(document(allow(['s3:*'], all('one'))), new Set());
    assert.deepEqual(
      none.Statement.map(({ Effect }) => Effect),
      ['Deny'],
    );
    assert.deepEqual(bucketsIn(none), new Set());
    const again = withBuckets(none, new Set(['one']));
    assert.deepEqual(
      again.Statement.map(({ Effect }) => Effect),
      ['Allow'],
    );
  });

  test('without one of them still allows what it did of the others, and no more', () => {
    const readers = document(allow(['s3:GetObject'], all('one'), all('two')));
    assert.deepEqual(withoutBucket(readers, 'one'), document(allow(['s3:GetObject'], all('two'))));
    assert.deepEqual(bucketsIn(withoutBucket(withoutBucket(readers, 'one'), 'two')), new Set());
  });

  test('is the same in another order', () => {
    const one = document(allow(['s3:GetObject', 's3:PutObject'], all('one'), all('two')));
    assert.ok(isSame(one, document(allow(['s3:PutObject', 's3:GetObject'], all('two'), all('one')))));
    assert.ok(!isSame(one, document(allow(['s3:GetObject'], all('one'), all('two')))));
    assert.ok(!isSame(one, document(allow(['s3:GetObject', 's3:PutObject'], all('one')))));
  });

  test('is for one bucket only if it names no other and nothing else', () => {
    assert.ok(isOnlyFor('one', document(allow(['s3:*'], all('one')))));
    assert.ok(!isOnlyFor('one', document(allow(['s3:*'], all('one'), all('two')))));
    assert.ok(!isOnlyFor('one', document(allow(['s3:*'], all('one')), allow(['admin:*'], '*'))));
    assert.ok(!isOnlyFor('one', document({ Effect: 'Allow', Action: ['admin:*'] })));
  });
});
