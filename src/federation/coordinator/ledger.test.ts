import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { makeTemporaryDirectory, removeTemporaryDirectory } from '../../../test/support/temporary-directory.ts';
import { openLocalCluster } from '../../adapters/sqlite/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { JOURNAL_STATE_BYTES, type Journal } from '../../ports/index.ts';
import {
  isWriteConflict,
  type Ledger,
  type LedgerMember,
  Ledgers,
  MAX_MEMBER_BYTES,
  packedSize,
  packLedger,
  unpackLedger,
} from './ledger.ts';

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

test('ledger: sixteen members of the largest size fit into one entry', () => {
  const member = (index: number, path: number): LedgerMember => ({
    clusterId: `cluster-${String(index).padStart(4, '0')}`,
    service: 'demo',
    endpoint: `https://${String(index).padStart(4, '0')}.example.org/${'p'.repeat(path)}`,
    verify: true,
    guarded: true,
    kind: 'oscar',
    keyId: 'ab'.repeat(32),
    state: 'undoing',
    since: 1_763_257_000_000,
  });
  const path = MAX_MEMBER_BYTES - packedSize(member(0, 0));
  assert.equal(packedSize(member(0, path)), MAX_MEMBER_BYTES);
  const ledger: Ledger = {
    uid: 'u',
    service: 's'.repeat(39),
    serviceUid: 'x'.repeat(36),
    phase: 'ending',
    revision: 4_000_000_000,
    begunAt: 1_763_257_000_000,
    members: Array.from({ length: 16 }, (_, index) => member(index, path)),
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

  async function using(work: (store: Ledgers, journal: Journal) => Promise<void>): Promise<void> {
    const directory = makeTemporaryDirectory();
    const cluster = openLocalCluster({ directory });
    try {
      await work(new Ledgers(cluster), cluster.journal);
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

  const large = (reason: string): Ledger => ({
    ...ledger,
    members: Array.from({ length: 400 }, (_, index) => ({
      clusterId: `cluster-${index}`,
      service: 'demo',
      endpoint: `https://cluster-${index}.example.org/${'p'.repeat(200)}`,
      verify: true,
      guarded: true,
      kind: 'oscar',
      keyId: 'ab'.repeat(32),
      state: 'made',
      reason: index === 37 ? reason : 'none',
      since: 1,
    })),
  });
  const listPages = async (journal: Journal) => (await journal.list('ledger-members/')).items.map(({ key }) => key);

  test('a ledger of 400 members is stored in pages, and a change of one member writes one page', () =>
    using(async (store, journal) => {
      const begun = await store.begin(large('first'));
      const before = await listPages(journal);
      await store.advance(begun, large('second'));
      const after = await listPages(journal);
      assert.equal(before.length, 25);
      assert.equal(after.filter((key) => !before.includes(key)).length, 1);
      assert.equal(after.length, 25);
      assert.deepEqual((await new Ledgers({ journal }).read('u1'))?.ledger, large('second'));
      const small = await store.amend('u1', () => ({ ...ledger, phase: 'ending' }));
      assert.deepEqual(await listPages(journal), []);
      assert.deepEqual((await store.read('u1'))?.ledger, small?.ledger);
    }));

  test('pages: a writer that lost the race removes its own pages and none of the winner', () =>
    using(async (store, journal) => {
      const begun = await store.begin(large('first'));
      await store.advance(begun, large('winner'));
      await assert.rejects(store.advance(begun, large('loser')), isWriteConflict);
      assert.equal((await listPages(journal)).length, 25);
      assert.deepEqual((await new Ledgers({ journal: uncached(journal) }).read('u1'))?.ledger, large('winner'));
    }));

  test('pages: a reader whose pages another writer has just replaced reads the newer ledger', () =>
    using(async (store, journal) => {
      const begun = await store.begin(large('first'));
      let isFirst = true;
      const slow = {
        ...uncached(journal),
        async read(key: string) {
          const entry = await journal.read(key);
          if (isFirst) {
            isFirst = false;
            await store.advance(begun, large('second'));
          }
          return entry;
        },
      };
      assert.deepEqual((await new Ledgers({ journal: slow }).read('u1'))?.ledger, large('second'));
    }));

  test('pages: those of a killed writer are removed after a day, and those in use stay', () =>
    using(async (store, journal) => {
      await store.begin(large('first'));
      const dying = { ...uncached(journal), advance: () => new Promise<never>(() => {}) };
      const entry = await new Ledgers({ journal: dying }).read('u1');
      assert.ok(entry);
      void new Ledgers({ journal: dying }).advance(entry, large('never'));
      await eventually(async () => assert.equal((await listPages(journal)).length, 26));
      await store.removeUnusedPages(Date.now());
      assert.equal((await listPages(journal)).length, 26);
      await store.removeUnusedPages(Date.now() + 25 * 3_600_000);
      assert.equal((await listPages(journal)).length, 25);
      assert.deepEqual((await store.read('u1'))?.ledger, large('first'));
      await store.finish(entry);
      assert.deepEqual(await listPages(journal), []);
    }));

  test('pages: concurrent amendments of a large ledger are all applied', () =>
    using(async (store) => {
      await store.begin(large('0'));
      const add = (current: Ledger): Ledger => ({
        ...current,
        members: current.members.map((member, index) =>
          index === 37 ? { ...member, reason: String(Number(member.reason) + 1) } : member,
        ),
      });
      await Promise.all(Array.from({ length: 5 }, () => store.amend('u1', add)));
      assert.equal((await store.read('u1'))?.ledger.members[37]?.reason, '5');
    }));
});

/** Another object with the same entries, so that pages that another manager has read are not in the cache. */
const uncached = (journal: Journal): Journal => ({
  begin: (...it) => journal.begin(...it),
  read: (key) => journal.read(key),
  claim: (...it) => journal.claim(...it),
  advance: (...it) => journal.advance(...it),
  finish: (...it) => journal.finish(...it),
  list: (...it) => journal.list(...it),
});
