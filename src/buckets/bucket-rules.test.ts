import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Admin, User } from '../identity/index.ts';
import type { Visibility } from '../ports/index.ts';
import { type BucketAction, mayBucket } from './buckets.ts';

const user = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
const people: Record<string, Admin | User> = {
  admin: { kind: 'admin' },
  owner: user('alice'),
  listed: user('bob'),
  other: user('carol'),
};

const TABLE = `
             admin  owner  listed  other
private
  use        yes    yes    no      no
  manage     yes    yes    no      no
restricted
  use        yes    yes    yes     no
  manage     yes    yes    no      no
public
  use        yes    yes    yes     yes
  manage     yes    yes    no      no
`;

const [, heading = '', ...lines] = TABLE.split('\n');
const names = heading.trim().split(/\s+/);
let visibility: Visibility = 'private';
for (const line of lines) {
  const [first = '', ...cells] = line.trim().split(/\s+/);
  if (cells.length === 0) {
    if (first !== '') visibility = first as Visibility;
    continue;
  }
  const bucket = { owner: 'alice', visibility, allowedUsers: ['bob'] };
  test(`bucket access: ${first} a ${visibility} bucket`, () => {
    const decided = names.map((name) => mayBucket(people[name] ?? user(''), first as BucketAction, bucket));
    assert.deepEqual(
      decided,
      cells.map((cell) => cell === 'yes'),
    );
  });
}
