import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { RecentRecords } from './job-cache.ts';

const object = (uid: string, characters: number): Stored<KubeJob> => ({
  metadata: { name: uid, uid, resourceVersion: '1', annotations: { event: 'x'.repeat(characters) } },
  spec: { template: { spec: {} } },
});

const held = (atHand: RecentRecords) => ['a', 'b', 'c', 'd'].filter((uid) => atHand.get(uid)).join('');

test('no more is held than there is room for, and the oldest goes first', () => {
  const atHand = new RecentRecords({ objects: 3, characters: 100 });
  for (const uid of ['a', 'b', 'c']) atHand.put(object(uid, 30));
  assert.equal(held(atHand), 'abc');
  atHand.put(object('a', 30));
  atHand.put(object('d', 30));
  assert.equal(held(atHand), 'acd', 'what was put again is young');
  atHand.put(object('b', 60));
  assert.equal(held(atHand), 'bd');
  atHand.delete('d');
  atHand.put(object('c', 40));
  assert.equal(held(atHand), 'bc', 'what is gone leaves its room');
  atHand.put(object('d', 101));
  assert.equal(held(atHand), '');
});

test('who wrote which field is not held', () => {
  const atHand = new RecentRecords();
  const { metadata, ...rest } = object('a', 1);
  atHand.put({ ...rest, metadata: { ...metadata, managedFields: [{}] } as typeof metadata });
  assert.equal('managedFields' in (atHand.get('a')?.metadata ?? {}), false);
});
