import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { JOURNAL_STATE_BYTES } from '../../ports/index.ts';
import { isWriteConflict, type Ledger, type LedgerMember, Ledgers, packLedger, unpackLedger } from './ledger.ts';

const hex = fc.stringMatching(/^[0-9a-f]{64}$/);
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const without = <T extends object>(value: T) =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as T;

const members = fc
  .record({
    clusterId: fc.constantFrom('a', 'b'),
    service: fc.stringMatching(/^[a-z]{1,8}$/),
    endpoint: fc.constantFrom('https://a.example', 'https://b.example', ''),
    verify: fc.boolean(),
    guarded: fc.boolean(),
    kind: fc.constantFrom('oscar', 'upstream'),
    keyId: hex,
    state: fc.constantFrom('wanted', 'made', 'leaving', 'undoing', 'conflict', 'left'),
    end: maybe(fc.constantFrom('undo', 'detach')),
    revision: maybe(fc.nat()),
    digest: maybe(
      fc.oneof(
        hex,
        fc.string({ maxLength: 20 }).filter((text) => !text.startsWith('~')),
      ),
    ),
    instance: maybe(fc.uuid()),
    lastSeen: maybe(fc.nat()),
    reason: maybe(fc.string({ maxLength: 100 })),
    since: fc.nat(),
    nextKeyId: maybe(hex),
    keyedAt: maybe(fc.nat()),
    force: maybe(fc.boolean()),
  })
  .map((member) => without(member) as LedgerMember);

const ledgers: fc.Arbitrary<Ledger> = fc.record(
  {
    uid: fc.uuid(),
    service: fc.constant('demo'),
    serviceUid: fc.uuid(),
    phase: fc.constantFrom('creating', 'active', 'ending'),
    revision: fc.nat(),
    begunAt: fc.nat(),
    members: fc.array(members, { maxLength: 5 }),
  },
  { noNullPrototype: true },
);

test('ledger: reading returns what was written', () => {
  fc.assert(
    fc.property(ledgers, (ledger) => {
      const written = JSON.parse(JSON.stringify(packLedger(ledger)));
      assert.deepEqual(unpackLedger(ledger.uid, written), ledger);
    }),
  );
});

test('ledger: a hundred members with long names, addresses and reasons fit into one entry', () => {
  const member = (index: number): LedgerMember => ({
    clusterId: `${'c'.repeat(58)}-${String(index).padStart(4, '0')}`,
    service: 's'.repeat(39),
    endpoint: `https://${String(index).padStart(4, '0')}.${'h'.repeat(100)}.example:30443`,
    verify: true,
    guarded: true,
    kind: 'oscar',
    keyId: 'ab'.repeat(32),
    state: 'undoing',
    end: 'detach',
    revision: 4_000_000_000,
    digest: 'cd'.repeat(32),
    instance: '6f1c2a4e-0000-4000-8000-000000000001',
    lastSeen: 1_763_257_000_000,
    reason: 'it has not answered '.repeat(20),
    since: 1_763_257_000_000,
    nextKeyId: 'ef'.repeat(32),
    keyedAt: 1_763_257_000_000,
    force: true,
  });
  const ledger: Ledger = {
    uid: 'u',
    service: 's'.repeat(39),
    serviceUid: 'x'.repeat(36),
    phase: 'ending',
    revision: 4_000_000_000,
    begunAt: 1_763_257_000_000,
    members: Array.from({ length: 100 }, (_, index) => member(index)),
  };
  const size = Buffer.byteLength(JSON.stringify(packLedger(ledger)));
  assert.ok(size <= JOURNAL_STATE_BYTES, `${size} bytes`);
});

describe('ledger: in a real journal', () => {
  const ledger: Ledger = {
    uid: 'u1',
    service: 'demo',
    serviceUid: '',
    phase: 'creating',
    revision: 1,
    begunAt: 5,
    members: [],
  };

  async function using(work: (store: Ledgers) => Promise<void>): Promise<void> {
    const directory = makeTemporaryDirectory();
    const cluster = openLocalCluster({ directory });
    try {
      await work(new Ledgers(cluster));
    } finally {
      await cluster.close();
      removeTemporaryDirectory(directory);
    }
  }

  test('of two writers with the same version, one succeeds and the other is told', () =>
    using(async (store) => {
      const begun = await store.begin(ledger);
      await store.advance(begun, { ...ledger, phase: 'active' });
      await assert.rejects(store.advance(begun, { ...ledger, phase: 'ending' }), isWriteConflict);
      assert.equal((await store.read('u1'))?.ledger.phase, 'active');
    }));

  test('the second claim of a ledger fails', () =>
    using(async (store) => {
      const begun = await store.begin(ledger);
      assert.ok(await store.claim(begun));
      assert.equal(await store.claim(begun), undefined);
    }));

  test('concurrent amendments of one ledger are all applied', () =>
    using(async (store) => {
      await store.begin(ledger);
      const add = (current: Ledger) => ({ ...current, revision: current.revision + 1 });
      await Promise.all(Array.from({ length: 10 }, () => store.amend('u1', add)));
      assert.equal((await store.read('u1'))?.ledger.revision, 11);
      assert.equal(await store.amend('nobody', add), undefined);
    }));

  test('an amendment that changes nothing is not written', () =>
    using(async (store) => {
      const begun = await store.begin(ledger);
      assert.equal((await store.amend('u1', (current) => current))?.version, begun.version);
    }));

  test('all ledgers are listed, except finished ones', () =>
    using(async (store) => {
      for (const uid of ['u1', 'u2', 'u3']) await store.begin({ ...ledger, uid });
      const second = await store.read('u2');
      assert.ok(second);
      await store.finish(second);
      const uids = (await Array.fromAsync(store.all())).map((entry) => entry.ledger.uid);
      assert.deepEqual(uids, ['u1', 'u3']);
    }));
});
