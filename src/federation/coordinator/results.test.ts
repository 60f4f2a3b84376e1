import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PeerError } from '../../peers/index.ts';
import { ledgerOf } from './ledger.fixture.ts';
import type { LedgerMember } from './ledger.ts';
import { type MemberResult, recordResults } from './results.ts';

const entry = (more: Partial<LedgerMember> = {}): LedgerMember => ({
  clusterId: 'b',
  service: 'demo',
  endpoint: 'https://b.example',
  verify: true,
  guarded: true,
  kind: 'oscar',
  keyId: 'key',
  state: 'wanted',
  since: 1,
  ...more,
});

const problem = new PeerError('failed', 'because');
const made = (revision: number): MemberResult => ({ keyId: 'key', kind: 'made', revision, digest: `d${revision}` });
const left: MemberResult = { keyId: 'key', kind: 'left', problem };

interface Case {
  readonly name: string;
  readonly before: LedgerMember;
  readonly result: MemberResult;
  readonly after: LedgerMember[];
}

const cases: Case[] = [
  {
    name: 'a member that was made is known by its revision, and why it was not is forgotten',
    before: entry({ reason: 'it did not answer' }),
    result: made(3),
    after: [entry({ state: 'made', revision: 3, digest: 'd3', since: 9, lastSeen: 9, keyedAt: 9 })],
  },
  {
    name: 'a member that stays made has been so since before',
    before: entry({ state: 'made', revision: 2, keyedAt: 2 }),
    result: made(3),
    after: [entry({ state: 'made', revision: 3, digest: 'd3', lastSeen: 9, keyedAt: 2 })],
  },
  {
    name: 'a member that took up its next key is known by that',
    before: entry({ state: 'made', revision: 2, keyedAt: 2, nextKeyId: 'next' }),
    result: { ...made(3), rekeyed: 'next' } as MemberResult,
    after: [entry({ state: 'made', revision: 3, digest: 'd3', lastSeen: 9, keyId: 'next', keyedAt: 9 })],
  },
  {
    name: 'so is one of which somebody else has seen that it took it up',
    before: entry({ state: 'made', revision: 2, keyId: 'next', keyedAt: 2 }),
    result: { ...made(3), rekeyed: 'next' } as MemberResult,
    after: [entry({ state: 'made', revision: 3, digest: 'd3', lastSeen: 9, keyId: 'next', keyedAt: 2 })],
  },
  {
    name: 'a member that leaves is ended by the key that it answers to',
    before: entry({ state: 'leaving', revision: 2, nextKeyId: 'next' }),
    result: { ...made(3), rekeyed: 'next' } as MemberResult,
    after: [entry({ state: 'leaving', revision: 2, keyId: 'next', keyedAt: 9 })],
  },
  {
    name: 'an answer that comes after a later one says nothing',
    before: entry({ state: 'made', revision: 4 }),
    result: made(3),
    after: [entry({ state: 'made', revision: 4 })],
  },
  {
    name: 'a member that leaves does not come back by an answer',
    before: entry({ state: 'leaving' }),
    result: made(3),
    after: [entry({ state: 'leaving' })],
  },
  {
    name: 'a member that is being ended does not leave by itself',
    before: entry({ state: 'undoing' }),
    result: left,
    after: [entry({ state: 'undoing' })],
  },
  {
    name: 'a member that its owner ended stays ended',
    before: entry({ state: 'left' }),
    result: made(3),
    after: [entry({ state: 'left' })],
  },
  {
    name: 'a member that was ended is gone',
    before: entry({ state: 'undoing' }),
    result: { keyId: 'key', kind: 'ended' },
    after: [],
  },
  {
    name: 'a member that is wanted again is not gone',
    before: entry({ state: 'made' }),
    result: { keyId: 'key', kind: 'ended' },
    after: [entry({ state: 'made' })],
  },
  {
    name: 'a member that is away stays what it is, with the reason',
    before: entry({ state: 'made' }),
    result: { keyId: 'key', kind: 'away', problem },
    after: [entry({ state: 'made', reason: 'because' })],
  },
  {
    name: 'a member that knows a later revision stays what it is, and that is the reason',
    before: entry({ state: 'made' }),
    result: { keyId: 'key', kind: 'ahead', revision: 40 },
    after: [
      entry({
        state: 'made',
        lastSeen: 9,
        reason: 'it has a later revision than this manager; the next revision will be higher',
      }),
    ],
  },
  {
    name: 'a member that was told of that revision meanwhile has no reason',
    before: entry({ state: 'made', revision: 40 }),
    result: { keyId: 'key', kind: 'ahead', revision: 40 },
    after: [entry({ state: 'made', revision: 40, lastSeen: 9 })],
  },
  {
    name: 'a member that is missing is wanted',
    before: entry({ state: 'made' }),
    result: { keyId: 'key', kind: 'missing', problem },
    after: [entry({ state: 'wanted', since: 9, lastSeen: 9, reason: 'because' })],
  },
  {
    name: 'a member whose name something else has stays in conflict while nobody can look who may make it',
    before: entry({ state: 'conflict', reason: 'the name belongs to another service' }),
    result: { keyId: 'key', kind: 'missing', problem },
    after: [entry({ state: 'conflict', lastSeen: 9, reason: 'the name belongs to another service' })],
  },
  {
    name: 'a member whose name is free again is made',
    before: entry({ state: 'conflict', reason: 'the name belongs to another service' }),
    result: made(3),
    after: [entry({ state: 'made', revision: 3, digest: 'd3', since: 9, lastSeen: 9, keyedAt: 9 })],
  },
];

describe('results: what a request to a member changes in the ledger', () => {
  for (const { name, before, result, after } of cases) {
    test(name, () => assert.deepEqual(recordResults(ledgerOf(before), [result], 9).members, after));
  }

  test('it is not recorded for another member of the same name', () => {
    const ledger = ledgerOf(entry({ keyId: 'new-key' }));
    assert.equal(recordResults(ledger, [made(3)], 9), ledger);
  });
});
