import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { countReads } from '../lib/counted-reads.fixture.ts';
import type { Replica } from '../model/service/index.ts';
import { FederationError } from '../peers/index.ts';
import { ledgerOf } from './coordinator/ledger.fixture.ts';
import type { LedgerMember } from './coordinator/ledger.ts';
import { membersView } from './coordinator/members-view.ts';
import { applyMembersChange, parseMembersChange } from './members.ts';

const full = (cluster_id: string, service_name: string, more: Partial<Replica> = {}): Replica => ({
  type: 'oscar',
  cluster_id,
  service_name,
  url: '',
  ssl_verify: true,
  priority: 0,
  headers: {},
  ...more,
});
const b = full('b', 'demo');
const c = full('c', 'demo');
const d = full('d', 'demo');
const sent = ({ cluster_id, service_name, ...more }: Partial<Replica>) => ({ cluster_id, service_name, ...more });
const url = 'https://anywhere.example/hook';

interface Form {
  readonly name: string;
  readonly method: 'POST' | 'PUT' | 'DELETE';
  readonly body?: unknown;
  readonly before: Replica[];
  readonly after: Replica[];
}

const forms: Form[] = [
  { name: 'POST appends members', method: 'POST', body: { members: [sent(c)] }, before: [b], after: [b, c] },
  { name: 'POST with the key of the seeds', method: 'POST', body: { replicas: [sent(c)] }, before: [b], after: [b, c] },
  { name: 'POST with a bare list', method: 'POST', body: [sent(c), sent(d)], before: [], after: [c, d] },
  {
    name: 'POST in any letter case',
    method: 'POST',
    body: { Members: [{ Cluster_ID: 'c', Service_Name: 'demo' }] },
    before: [],
    after: [c],
  },
  { name: 'POST without members changes nothing', method: 'POST', body: { members: [] }, before: [b], after: [b] },
  {
    name: 'POST of a member that is there updates it, in its place',
    method: 'POST',
    body: { members: [{ type: 'OSCAR', ...sent(b), priority: 7 }] },
    before: [b, c],
    after: [{ ...b, priority: 7 }, c],
  },
  {
    name: 'POST of a URL that is not there appends it',
    method: 'POST',
    body: { members: [{ type: 'endpoint', url }] },
    before: [b],
    after: [b, full('', '', { type: 'endpoint', url })],
  },
  {
    name: 'PUT with the old and the new member',
    method: 'PUT',
    body: { members: [sent(b)], update: [{ ...sent(b), priority: 5 }] },
    before: [b, c],
    after: [{ ...b, priority: 5 }, c],
  },
  {
    name: 'PUT may put another member in the place of one',
    method: 'PUT',
    body: { members: [sent(b)], update: [sent(d)] },
    before: [b, c],
    after: [d, c],
  },
  {
    name: 'PUT with two pairs',
    method: 'PUT',
    body: {
      members: [sent(b), sent(c)],
      update: [
        { ...sent(b), priority: 1 },
        { ...sent(c), priority: 2 },
      ],
    },
    before: [b, c],
    after: [
      { ...b, priority: 1 },
      { ...c, priority: 2 },
    ],
  },
  {
    name: 'PUT with fewer new than old ones changes those that are named',
    method: 'PUT',
    body: { members: [sent(b), sent(c)], update: [{ ...sent(c), priority: 2 }] },
    before: [b, c],
    after: [b, { ...c, priority: 2 }],
  },
  {
    name: 'PUT with members only',
    method: 'PUT',
    body: { members: [{ ...sent(c), priority: 3 }] },
    before: [b, c],
    after: [b, { ...c, priority: 3 }],
  },
  {
    name: 'PUT with update only',
    method: 'PUT',
    body: { update: [{ ...sent(c), priority: 3 }] },
    before: [b, c],
    after: [b, { ...c, priority: 3 }],
  },
  {
    name: 'PUT with a bare list',
    method: 'PUT',
    body: [{ ...sent(c), priority: 3 }],
    before: [c],
    after: [{ ...c, priority: 3 }],
  },
  {
    name: 'PUT with replicas only',
    method: 'PUT',
    body: { replicas: [{ ...sent(c), priority: 3 }] },
    before: [c],
    after: [{ ...c, priority: 3 }],
  },
  {
    name: 'PUT with an empty update changes nothing',
    method: 'PUT',
    body: { members: [sent(b)], update: [] },
    before: [b, c],
    after: [b, c],
  },
  {
    name: 'PUT of a member that is not there changes nothing',
    method: 'PUT',
    body: { members: [sent(d)], update: [{ ...sent(d), priority: 5 }] },
    before: [b],
    after: [b],
  },
  { name: 'DELETE of one', method: 'DELETE', body: { members: [sent(b)] }, before: [b, c], after: [c] },
  {
    name: 'DELETE with the key of the seeds',
    method: 'DELETE',
    body: { replicas: [sent(b)] },
    before: [b, c],
    after: [c],
  },
  { name: 'DELETE with a bare list', method: 'DELETE', body: [sent(b)], before: [b, c], after: [c] },
  {
    name: 'DELETE of one that is not there',
    method: 'DELETE',
    body: { members: [sent(d)] },
    before: [b, c],
    after: [b, c],
  },
  { name: 'DELETE without a body is of all', method: 'DELETE', before: [b, c], after: [] },
  { name: 'DELETE with an empty body is of all', method: 'DELETE', body: '', before: [b, c], after: [] },
  { name: 'DELETE with no members is of all', method: 'DELETE', body: { members: [] }, before: [b, c], after: [] },
  { name: 'DELETE with null members is of all', method: 'DELETE', body: { members: null }, before: [b, c], after: [] },
  {
    name: 'DELETE of one without ids is of all',
    method: 'DELETE',
    body: { members: [{ cluster_id: '', service_name: '' }] },
    before: [b, c],
    after: [],
  },
];

describe('members: every body that clients send', () => {
  for (const { name, method, body, before, after } of forms) {
    test(name, () => assert.deepEqual(applyMembersChange(parseMembersChange(method, body), before), after));
  }
});

test('members: a removed member is deleted on its cluster, unless the body says otherwise', () => {
  const endOf = (body: unknown) => {
    const intention = parseMembersChange('DELETE', body);
    return intention.verb === 'remove' && intention.end;
  };
  assert.equal(endOf(undefined), 'undo');
  assert.equal(endOf({ members: [sent(b)] }), 'undo');
  assert.equal(endOf({ members: [sent(b)], delete: true }), 'undo');
  assert.equal(endOf({ members: [sent(b)], delete: false }), 'detach');
});

test('members: a change may add clusters and storage providers', () => {
  const { clusters, storageProviders } = parseMembersChange('POST', {
    members: [],
    clusters: { b: { endpoint: 'https://b.example' } },
    storage_providers: { s3: { one: { region: 'eu' } } },
  });
  assert.deepEqual(clusters, {
    b: { endpoint: 'https://b.example', auth_user: '', auth_password: '', ssl_verify: true },
  });
  assert.deepEqual(storageProviders, { s3: { one: { access_key: '', secret_key: '', region: 'eu' } } });
});

const refused: { name: string; method: 'POST' | 'PUT' | 'DELETE'; body: unknown; says: RegExp }[] = [
  { name: 'the same member twice', method: 'POST', body: [sent(b), sent(b)], says: /^members\[1\]: is listed twice$/ },
  {
    name: 'the same member twice in another spelling',
    method: 'POST',
    body: [sent(b), { ...sent(b), type: 'Oscar' }],
    says: /twice/,
  },
  {
    name: 'an update that is for no member',
    method: 'PUT',
    body: { members: [sent(b), sent(c)], update: [sent(d)] },
    says: /^update\[0\]: names none of the listed members/,
  },
  { name: 'no object at all', method: 'POST', body: 7, says: /must be an object/ },
  { name: 'members that are no list', method: 'POST', body: { members: 'b' }, says: /^members: must be a list/ },
];
for (const { name, method, body, says } of refused) {
  test(`members: ${name} is rejected`, () => {
    assert.throws(
      () => parseMembersChange(method, body),
      (error) => error instanceof FederationError && error.code === 'invalid-federation' && says.test(error.message),
    );
  });
}

describe('members: the view', () => {
  const entry = (clusterId: string, more: Partial<LedgerMember>): LedgerMember => ({
    clusterId,
    service: 'demo',
    endpoint: `https://${clusterId}.example`,
    verify: true,
    guarded: true,
    kind: 'oscar',
    keyId: clusterId,
    state: 'made',
    revision: 3,
    since: 0,
    ...more,
  });
  const federation = (...members: Replica[]) => ({ group_id: 'demo', topology: 'STAR', members });

  test('members is null if there are none, and topology is none without a federation', () => {
    assert.deepEqual(membersView({}), { topology: 'none', members: null });
    assert.deepEqual(membersView({ federation: federation() }), { topology: 'STAR', members: null });
  });

  test('members are shown as in the definition', () => {
    assert.deepEqual(membersView({ federation: federation(b, c) }), { topology: 'STAR', members: [b, c] });
  });

  const states: { name: string; more: Partial<LedgerMember>; state: string }[] = [
    { name: 'made at this revision', more: {}, state: 'ready' },
    { name: 'made at an older one', more: { revision: 2 }, state: 'pending' },
    { name: 'made, but silent since', more: { reason: 'no answer' }, state: 'unreachable' },
    { name: 'yet to be made', more: { state: 'wanted' }, state: 'pending' },
    { name: 'in conflict', more: { state: 'conflict' }, state: 'conflict' },
    { name: 'ended by its owner', more: { state: 'left' }, state: 'removed-by-owner' },
  ];
  for (const { name, more, state } of states) {
    test(`a member that is ${name} is ${state}`, () => {
      const [shown] = membersView({ federation: federation(b) }, ledgerOf(entry('b', more))).members ?? [];
      assert.equal((shown as { state?: string }).state, state);
    });
  }

  test('a leaving member is shown with its status only, also one that is being created anew', () => {
    const going = entry('c', { state: 'undoing', reason: 'no answer', lastSeen: 0 });
    const ledger = ledgerOf(entry('b', {}), going);
    assert.deepEqual(membersView({ federation: federation(b) }).members, [b]);
    assert.deepEqual(membersView({ federation: federation(b) }, ledger).members?.[1], {
      ...c,
      ssl_verify: false,
      state: 'removing',
      revision: 3,
      last_seen: '1970-01-01T00:00:00.000Z',
      reason: 'no answer',
    });
  });

  test('a member that is not in the ledger yet is pending, and a URL is always ready', () => {
    const endpoint = full('', '', { type: 'endpoint', url });
    const shown = membersView({ federation: federation(b, endpoint) }, ledgerOf()).members;
    assert.deepEqual(
      shown?.map((each) => (each as { state?: string }).state),
      ['pending', 'ready'],
    );
  });
});

describe('members: a body of many entries', () => {
  const many = (length: number) => Array.from({ length }, (_, index) => full(`c${index}`, 'demo'));

  test('it is rejected by its length, before the entries are read', () => {
    const reads = [20_000, 40_000].map((length) => {
      const counted = countReads(many(length));
      assert.throws(
        () => parseMembersChange('POST', { replicas: counted.list }),
        new RegExp(`^FederationError: replicas: has ${length} entries, and at most 1000 are allowed$`),
      );
      return counted.reads();
    });
    assert.equal(reads[0], reads[1]);
  });

  test('its entries are not compared pairwise', () => {
    const cost = (length: number) => {
      const [given, current] = [countReads(many(length)), countReads(many(length))];
      applyMembersChange({ verb: 'add', members: given.list }, current.list);
      const changes = given.list.map((from) => ({ from, to: from }));
      applyMembersChange({ verb: 'change', changes }, current.list);
      applyMembersChange({ verb: 'remove', members: given.list, end: 'undo', force: false }, current.list);
      return given.reads() + current.reads();
    };
    const [some, twice] = [cost(60), cost(120)];
    assert.ok(twice <= 2.1 * some, `${some} reads for 60, ${twice} for 120`);
  });
});
