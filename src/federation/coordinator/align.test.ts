import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Alignment, alignLedger, type DesiredMember, endIdleMembers } from './align.ts';
import { ledgerOf } from './ledger.fixture.ts';
import { type LedgerMember, memberId } from './ledger.ts';

const place = (clusterId: string) => ({
  clusterId,
  endpoint: `https://${clusterId}.example`,
  verify: true,
  guarded: true,
  kind: 'oscar' as const,
});
const entry = (clusterId: string, more: Partial<LedgerMember> = {}): LedgerMember => ({
  ...place(clusterId),
  service: 'demo',
  keyId: `key-of-${clusterId}`,
  state: 'made',
  revision: 3,
  since: 1,
  ...more,
});
const wanted = (clusterId: string): DesiredMember => ({ clusterId, service: 'demo', address: place(clusterId) });
const alignment = (more: Partial<Alignment>): Alignment => ({
  revision: 4,
  wanted: [],
  lostKeyIds: new Set<string>(),
  renew: false,
  newKeyId: () => 'new-key',
  now: 9,
  ...more,
});

interface Case {
  readonly name: string;
  readonly before: LedgerMember[];
  readonly given: Partial<Alignment>;
  readonly after: LedgerMember[];
}

const cases: Case[] = [
  {
    name: 'a new member is to be made',
    before: [],
    given: { wanted: [wanted('b')] },
    after: [{ ...place('b'), service: 'demo', keyId: 'new-key', state: 'wanted', unrequested: true, since: 9 }],
  },
  {
    name: 'a member on an unknown cluster is written down with the reason',
    before: [],
    given: { wanted: [{ clusterId: 'x', service: 'demo', problem: 'nobody knows it' }] },
    after: [
      {
        ...place('x'),
        endpoint: '',
        service: 'demo',
        keyId: 'new-key',
        state: 'wanted',
        unrequested: true,
        since: 9,
        reason: 'nobody knows it',
      },
    ],
  },
  {
    name: 'a member that stays keeps its key',
    before: [entry('b')],
    given: { wanted: [wanted('b')] },
    after: [entry('b')],
  },
  {
    name: 'a cluster that has moved is asked where it is now',
    before: [entry('b', { endpoint: 'https://old.example' })],
    given: { wanted: [wanted('b')] },
    after: [entry('b')],
  },
  {
    name: 'a member that is not wanted any more leaves, and is undone if nothing else was said',
    before: [entry('b', { reason: 'it did not answer' }), entry('c', { end: 'detach' })],
    given: {},
    after: [
      entry('b', { state: 'leaving', end: 'undo', since: 9 }),
      entry('c', { state: 'leaving', end: 'detach', since: 9 }),
    ],
  },
  {
    name: 'a member that is leaving and wanted again stays what it was',
    before: [entry('b', { state: 'leaving', end: 'undo' })],
    given: { wanted: [wanted('b')] },
    after: [entry('b', { since: 9 })],
  },
  {
    name: 'a member that is being ended and wanted again is made anew beside it',
    before: [entry('b', { state: 'undoing', end: 'undo' })],
    given: { wanted: [wanted('b')] },
    after: [
      { ...place('b'), service: 'demo', keyId: 'new-key', state: 'wanted', unrequested: true, since: 9 },
      entry('b', { state: 'undoing', end: 'undo' }),
    ],
  },
  {
    name: 'a key that was never kept is made anew',
    before: [entry('b', { state: 'wanted' })],
    given: { wanted: [wanted('b')], lostKeyIds: new Set(['key-of-b']) },
    after: [{ ...place('b'), service: 'demo', keyId: 'new-key', state: 'wanted', since: 9 }],
  },
  {
    name: 'a member that was never told to be made stays so under another key, and while it leaves',
    before: [entry('b', { state: 'wanted', unrequested: true }), entry('c', { state: 'wanted', unrequested: true })],
    given: { wanted: [wanted('b')], lostKeyIds: new Set(['key-of-b']) },
    after: [
      { ...place('b'), service: 'demo', keyId: 'new-key', state: 'wanted', unrequested: true, since: 9 },
      entry('c', { state: 'leaving', end: 'undo', unrequested: true, since: 9 }),
    ],
  },
  {
    name: 'a key that is lost is made anew only when somebody can bring it there',
    before: [entry('b')],
    given: { wanted: [wanted('b')], lostKeyIds: new Set(['key-of-b']) },
    after: [entry('b')],
  },
  {
    name: 'a key that is lost is made anew when somebody can bring it there',
    before: [entry('b')],
    given: { wanted: [wanted('b')], lostKeyIds: new Set(['key-of-b']), renew: true },
    after: [{ ...place('b'), service: 'demo', keyId: 'new-key', state: 'wanted', since: 9 }],
  },
  {
    name: 'a member gets its next key beside the one it has',
    before: [entry('b')],
    given: { wanted: [wanted('b')], rekey: () => true },
    after: [entry('b', { nextKeyId: 'new-key' })],
  },
  {
    name: 'a next key that is kept may be known there, and stays the next one',
    before: [entry('b', { nextKeyId: 'next' })],
    given: { wanted: [wanted('b')], rekey: () => true },
    after: [entry('b', { nextKeyId: 'next' })],
  },
  {
    name: 'a next key that was never kept is made anew',
    before: [entry('b', { nextKeyId: 'next' })],
    given: { wanted: [wanted('b')], rekey: () => true, lostKeyIds: new Set(['next']) },
    after: [entry('b', { nextKeyId: 'new-key' })],
  },
  {
    name: 'a key that was dropped had been replaced by the next one',
    before: [entry('b', { nextKeyId: 'next' })],
    given: { wanted: [wanted('b')], lostKeyIds: new Set(['key-of-b']) },
    after: [entry('b', { keyId: 'next' })],
  },
  {
    name: 'members that are not made, or know no keys, get no other',
    before: [entry('b', { state: 'wanted' }), entry('c', { kind: 'upstream' })],
    given: {
      wanted: [wanted('b'), { ...wanted('c'), address: { ...place('c'), kind: 'upstream' } }],
      rekey: () => true,
    },
    after: [entry('b', { state: 'wanted' }), entry('c', { kind: 'upstream' })],
  },
  {
    name: 'a member that was to be ended at once and is wanted again is as before',
    before: [entry('b', { state: 'leaving', end: 'detach', force: true, reason: 'it still has jobs' })],
    given: { wanted: [wanted('b')] },
    after: [entry('b', { since: 9 })],
  },
];

describe('align: a ledger follows its definition', () => {
  for (const { name, before, given, after } of cases) {
    test(name, () => {
      const { members, revision } = alignLedger(ledgerOf(...before), alignment(given));
      assert.equal(revision, 4);
      assert.deepEqual(members, after);
    });
  }

  test('an older definition changes nothing', () => {
    const ledger = ledgerOf(entry('b'));
    assert.equal(alignLedger(ledger, alignment({ revision: 2 })), ledger);
  });

  test('a definition that changes nothing returns the same ledger', () => {
    const ledger = ledgerOf(entry('b'));
    assert.equal(alignLedger(ledger, alignment({ revision: 3, wanted: [wanted('b')] })), ledger);
  });
});

test('align: leaving members without jobs are ended, others are not', () => {
  const leaving = { state: 'leaving', reason: 'it still had jobs' } as const;
  const ledger = ledgerOf(entry('b'), entry('c', leaving), entry('d', leaving));
  const { members } = endIdleMembers(ledger, ({ clusterId }) => clusterId === 'd');
  assert.deepEqual(
    members.map((each) => [memberId(each), each.state, each.reason]),
    [
      ['b/demo', 'made', undefined],
      ['c/demo', 'undoing', undefined],
      ['d/demo', 'leaving', 'it still has jobs: it is removed when they end, or after 24 hours'],
    ],
  );
  const waiting = ledgerOf(...members.filter(({ state }) => state !== 'undoing'));
  assert.equal(
    endIdleMembers(waiting, () => true),
    waiting,
    'what is said already is not written again',
  );
});
