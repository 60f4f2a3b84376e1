import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { listAllPages } from '../cursor.ts';
import { JOURNAL_STATE_BYTES, type Journal, type JournalState } from '../journal.ts';
import { onlyOneWon } from './only-one-won.ts';

export interface JournalUnderTest {
  /** Empty. */
  journal: Journal;
  close(): void | Promise<void>;
}

const CROWD = 20;

/** What every {@link Journal} promises. */
export function describeJournal(name: string, make: () => Promise<JournalUnderTest>): void {
  const start = async (t: TestContext): Promise<Journal> => {
    const made = await make();
    t.after(() => made.close());
    return made.journal;
  };

  describe(`${name} as a Journal`, () => {
    test('an entry exists from begin to finish', async (t) => {
      const journal = await start(t);
      assert.equal(await journal.read('deploy/f1'), undefined);
      const begun = await journal.begin('deploy/f1', { step: 'reserve' });
      assert.deepEqual(await journal.read('deploy/f1'), begun);
      assert.deepEqual(begun, { key: 'deploy/f1', state: { step: 'reserve' }, version: begun.version });

      const advanced = await journal.advance('deploy/f1', begun.version, { step: 'create' });
      assert.deepEqual(await journal.read('deploy/f1'), { ...begun, state: { step: 'create' }, version: advanced });

      await journal.finish('deploy/f1', advanced);
      assert.equal(await journal.read('deploy/f1'), undefined);
    });

    test('of concurrent begins of one entry, one succeeds', async (t) => {
      const journal = await start(t);
      const attempts = await Promise.allSettled(
        Array.from({ length: CROWD }, (_, i) => journal.begin('deploy/f1', { i })),
      );
      assert.deepEqual(await journal.read('deploy/f1'), onlyOneWon(attempts, 'exists'));
    });

    test('a finished key can be used again, with new versions', async (t) => {
      const journal = await start(t);
      const first = await journal.begin('deploy/f1', {});
      await journal.finish('deploy/f1', first.version);
      const second = await journal.begin('deploy/f1', {});
      assert.notEqual(first.version, second.version);
      await assert.rejects(journal.advance('deploy/f1', first.version, {}), { code: 'conflict' });
    });

    test('of concurrent claims of one version, one succeeds and the others get busy', async (t) => {
      const journal = await start(t);
      const { version, state } = await journal.begin('deploy/f1', { step: 'create' });
      const answers = await Promise.all(Array.from({ length: CROWD }, () => journal.claim('deploy/f1', version)));
      const [claimed, ...more] = answers.filter((answer) => answer !== 'busy');
      assert.ok(claimed);
      assert.equal(more.length, 0);
      assert.notEqual(claimed, version);
      assert.deepEqual(await journal.read('deploy/f1'), { key: 'deploy/f1', state, version: claimed });
    });

    test('a claimer that was overtaken can write nothing more', async (t) => {
      const journal = await start(t);
      const { version } = await journal.begin('deploy/f1', { step: 'create' });
      const claimed = await journal.claim('deploy/f1', version);
      await assert.rejects(journal.advance('deploy/f1', version, { step: 'late' }), { code: 'conflict' });
      await assert.rejects(journal.finish('deploy/f1', version), { code: 'conflict' });
      const { state } = (await journal.read('deploy/f1')) ?? {};
      assert.deepEqual(state, { step: 'create' });
      assert.notEqual(claimed, 'busy');
    });

    test('of concurrent advances of one version, one succeeds', async (t) => {
      const journal = await start(t);
      const { version } = await journal.begin('deploy/f1', {});
      const attempts = await Promise.allSettled(
        Array.from({ length: CROWD }, (_, i) => journal.advance('deploy/f1', version, { i })),
      );
      const winner = onlyOneWon(attempts, 'conflict');
      const i = attempts.findIndex(({ status }) => status === 'fulfilled');
      assert.deepEqual(await journal.read('deploy/f1'), { key: 'deploy/f1', state: { i }, version: winner });
    });

    test('a finished entry is absent, and busy for claims', async (t) => {
      const journal = await start(t);
      const { version } = await journal.begin('deploy/f1', {});
      await journal.finish('deploy/f1', version);
      await assert.rejects(journal.advance('deploy/f1', version, {}), { code: 'absent' });
      await assert.rejects(journal.finish('deploy/f1', version), { code: 'absent' });
      assert.equal(await journal.claim('deploy/f1', version), 'busy');
    });

    test('states are read back unchanged', async (t) => {
      const journal = await start(t);
      const state: JournalState = JSON.parse(
        '{"__proto__":{"a":1},"":"","list":[null,true,-1.5,1e300,"🐄\\u0000"],"ключ":{"constructor":[]}}',
      );
      await journal.begin('deploy/f1', state);
      assert.deepEqual((await journal.read('deploy/f1'))?.state, state);
    });

    test('a state up to JOURNAL_STATE_BYTES is accepted, a larger one rejected', async (t) => {
      const journal = await start(t);
      const overhead = JSON.stringify({ text: '' }).length;
      const largest = { text: 'x'.repeat(JOURNAL_STATE_BYTES - overhead) };
      // Two bytes each, so that counting characters would let it through.
      const larger = { text: 'é'.repeat(JOURNAL_STATE_BYTES / 2) };
      const { version } = await journal.begin('deploy/f1', largest);
      assert.deepEqual((await journal.read('deploy/f1'))?.state, largest);
      await assert.rejects(journal.advance('deploy/f1', version, larger), { code: 'too-large' });
      await assert.rejects(journal.begin('deploy/f2', larger), { code: 'too-large' });
      assert.equal((await journal.read('deploy/f1'))?.version, version);
      assert.equal(await journal.read('deploy/f2'), undefined);
    });

    test('entries are listed by prefix, sorted, in pages', async (t) => {
      const journal = await start(t);
      const keys = ['deploy/a', 'deploy/b', 'deploy/b/1', 'deploy/c', 'deploy/d', 'deploy/e', 'deploy/f'];
      for (const key of ['deplox', 'deploy', 'deploz/a', ...keys.toReversed()]) await journal.begin(key, { key });
      assert.deepEqual(await listed(journal, 'deploy/'), keys);
      assert.deepEqual(await listed(journal, 'deploy/b'), ['deploy/b', 'deploy/b/1']);
      assert.deepEqual(await listed(journal, 'nothing'), []);
      assert.equal((await listed(journal, '')).length, keys.length + 3);
    });

    test('no character of a prefix is a wildcard', async (t) => {
      const journal = await start(t);
      const keys = ['a%b', 'a_b', 'axb', 'A%b', "a'b", 'a*b', 'a[b]', 'é/1', 'é\u{10ffff}'];
      for (const key of keys) await journal.begin(key, {});
      for (const key of keys) assert.deepEqual(await listed(journal, key.slice(0, 2)), [key]);
      assert.deepEqual(await listed(journal, 'a%'), ['a%b']);
      assert.deepEqual(await listed(journal, '%'), []);
    });
  });
}

async function listed(journal: Journal, prefix: string): Promise<string[]> {
  return (await listAllPages((cursor) => journal.list(prefix, cursor))).flat().map(({ key }) => key);
}
