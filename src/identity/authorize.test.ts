import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Action, type Decision, type Guarded, may } from './authorize.ts';
import type { Principal, User } from './principal.ts';

const OWNER = '62bb11b40398f737@egi.eu';

const user = (uid: string, more: Partial<User> = {}): User => ({
  kind: 'user',
  uid,
  name: uid,
  groups: [],
  operator: false,
  ...more,
});

const PRINCIPALS: Record<string, Principal> = {
  admin: { kind: 'admin' },
  owner: user(OWNER),
  listed: user('bob'),
  other: user('carol'),
  operator: user('olga', { operator: true }),
  'its-token': { kind: 'service-token', service: 'cowsay' },
  'other-token': { kind: 'service-token', service: 'grayify' },
};

function principal(who: string): Principal {
  const found = PRINCIPALS[who];
  assert.ok(found, who);
  return found;
}

const service = (visibility: string): Guarded => ({
  owner: OWNER,
  definition: { name: 'cowsay', visibility, allowed_users: ['bob'] },
});

// Every cell of docs/security.md#who-may-do-what: "no" is 403, "hidden" 404, "own" the caller's own executions.
const TABLE = `
private            admin   owner   listed  other   operator  its-token  other-token
read               yes     yes     hidden  hidden  hidden    no         hidden
see-token          yes     yes     hidden  hidden  hidden    no         hidden
invoke             no      yes     hidden  hidden  hidden    yes        hidden
reach              yes     yes     hidden  hidden  hidden    yes        hidden
read-jobs          yes     own     hidden  hidden  hidden    no         hidden
delete-jobs        yes     yes     hidden  hidden  hidden    no         hidden
update             yes     yes     hidden  hidden  hidden    no         hidden
delete             yes     yes     hidden  hidden  hidden    no         hidden
lifecycle          yes     yes     hidden  hidden  hidden    no         hidden
read-federation    yes     yes     hidden  hidden  hidden    yes        hidden
add-member         yes     yes     hidden  hidden  hidden    yes        hidden
change-federation  yes     yes     hidden  hidden  hidden    no         hidden

restricted         admin   owner   listed  other   operator  its-token  other-token
read               yes     yes     yes     hidden  hidden    no         hidden
see-token          yes     yes     yes     hidden  hidden    no         hidden
invoke             no      yes     yes     hidden  hidden    yes        hidden
reach              yes     yes     yes     hidden  hidden    yes        hidden
read-jobs          yes     own     own     hidden  hidden    no         hidden
delete-jobs        yes     yes     own     hidden  hidden    no         hidden
update             yes     yes     no      hidden  hidden    no         hidden
delete             yes     yes     no      hidden  hidden    no         hidden
lifecycle          yes     yes     no      hidden  hidden    no         hidden
read-federation    yes     yes     yes     hidden  hidden    yes        hidden
add-member         yes     yes     no      hidden  hidden    no         hidden
change-federation  yes     yes     no      hidden  hidden    no         hidden

public             admin   owner   listed  other   operator  its-token  other-token
read               yes     yes     yes     yes     yes       no         hidden
see-token          yes     yes     yes     yes     yes       no         hidden
invoke             no      yes     yes     yes     yes       yes        hidden
reach              yes     yes     yes     yes     yes       yes        hidden
read-jobs          yes     own     own     own     own       no         hidden
delete-jobs        yes     yes     own     own     own       no         hidden
update             yes     yes     no      no      no        no         hidden
delete             yes     yes     no      no      no        no         hidden
lifecycle          yes     yes     no      no      no        no         hidden
read-federation    yes     yes     yes     yes     yes       yes        hidden
add-member         yes     yes     no      no      no        no         hidden
change-federation  yes     yes     no      no      no        no         hidden
`;

const blocks = TABLE.trim()
  .split('\n\n')
  .map((block) => block.split('\n').map((line) => line.split(/\s+/)));
const ACTIONS: Action[] = [
  'read',
  'see-token',
  'invoke',
  'reach',
  'read-jobs',
  'delete-jobs',
  'update',
  'delete',
  'lifecycle',
  'read-federation',
  'add-member',
  'change-federation',
];

for (const [[visibility = '', ...people] = [], ...rows] of blocks) {
  for (const [index, action] of ACTIONS.entries()) {
    test(`authorize: ${action} on a ${visibility} service`, () => {
      const decided = people.map((who) => may(principal(who), action, service(visibility)));
      const [name, ...cells] = rows[index] ?? [];
      assert.equal(name, action);
      assert.deepEqual(
        decided,
        cells.map((cell) => (cell === 'no' ? 'forbidden' : cell)),
      );
    });
  }
}

test('authorize: the table covers every principal, visibility and action', () => {
  const visibilities = blocks.map(([heading]) => heading?.[0]);
  assert.deepEqual(visibilities, ['private', 'restricted', 'public']);
  for (const [[, ...people] = [], ...rows] of blocks) {
    assert.deepEqual(people, Object.keys(PRINCIPALS));
    assert.equal(rows.length, ACTIONS.length);
  }
});

test('authorize: an unknown visibility counts as private', () => {
  for (const word of ['Public', 'RESTRICTED', 'publik', '']) {
    assert.equal(may(user('bob'), 'read', service(word)), 'hidden', word);
  }
});

test('authorize: the whole uid is compared, not only the part before the @', () => {
  assert.equal(may(user('62bb11b40398f737'), 'read', service('private')), 'hidden');
});

const uid = fc.constantFrom('alice', 'bob', 'carol', 'cluster_admin');
const name = fc.constantFrom('cowsay', 'grayify');
const anybody: fc.Arbitrary<Principal> = fc.oneof(
  fc.constant<Principal>({ kind: 'admin' }),
  fc.record({ uid, operator: fc.boolean() }).map(({ uid: who, operator }) => user(who, { operator })),
  name.map((of): Principal => ({ kind: 'service-token', service: of })),
);
const anyService: fc.Arbitrary<Guarded> = fc.record({
  owner: uid,
  definition: fc.record({
    name,
    visibility: fc.constantFrom('private', 'restricted', 'public', 'Public', ''),
    allowed_users: fc.array(uid),
  }),
});

test('authorize: only the administrator and the owner can change a service', () => {
  const changes: Action[] = ['update', 'delete', 'lifecycle', 'change-federation'];
  fc.assert(
    fc.property(anybody, anyService, fc.constantFrom(...changes), (who, what, action) => {
      const entitled = who.kind === 'admin' || (who.kind === 'user' && who.uid === what.owner);
      assert.equal(may(who, action, what) === 'yes', entitled);
    }),
  );
});

test('authorize: a service that is hidden from a caller is hidden for every action', () => {
  fc.assert(
    fc.property(anybody, anyService, (who, what) => {
      if (may(who, 'read', what) !== 'hidden') return;
      const answers = new Set<Decision>(ACTIONS.map((action) => may(who, action, what)));
      assert.deepEqual([...answers], ['hidden']);
    }),
  );
});
