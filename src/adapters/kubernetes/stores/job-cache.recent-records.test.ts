import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KubeJob, Stored } from '../client/kinds.ts';
import { RecentRecords } from './job-cache.ts';

const object = (uid: string, characters: number): Stored<KubeJob> => ({
  metadata: { name: uid, uid, resourceVersion: '1', annotations: { event: 'x'.repeat(characters) } },
  spec: { template: { spec: {} } },
});

const held = (recent: RecentRecords) => ['a', 'b', 'c', 'd'].filter((uid) => recent.get(uid)).join('');

test('recent records: the limits hold, and the oldest record is evicted first', () => {
  const recent = new RecentRecords({ objects: 3, characters: 100 });
  for (const uid of ['a', 'b', 'c']) recent.put(object(uid, 30));
  assert.equal(held(recent), 'abc');
  recent.put(object('a', 30));
  recent.put(object('d', 30));
  assert.equal(held(recent), 'acd', 'a record that was put again is the newest');
  recent.put(object('b', 60));
  assert.equal(held(recent), 'bd');
  recent.delete('d');
  recent.put(object('c', 40));
  assert.equal(held(recent), 'bc', 'a deleted record frees its share');
  recent.put(object('d', 101));
  assert.equal(held(recent), '');
});

test('recent records: managedFields are dropped', () => {
  const recent = new RecentRecords();
  const { metadata, ...rest } = object('a', 1);
  recent.put({ ...rest, metadata: { ...metadata, managedFields: [{}] } as typeof metadata });
  assert.equal('managedFields' in (recent.get('a')?.metadata ?? {}), false);
});
