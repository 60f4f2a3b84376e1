import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cursor } from '../../../lib/version.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { StoreError } from '../../../ports/index.ts';
import { BlobSweep, type BlobSweepOptions } from './blob-sweep.ts';

const PAGE = 500;

/** Keys on a shelf, all of them old, in pages. The real ones are tested with what they are part of. */
function shelfOf(keys: string[]) {
  return {
    keys,
    async list(cursor = '' as Cursor) {
      if (cursor === 'expired') throw new StoreError('expired', 'begin again');
      const later = keys.filter((key) => key > cursor).toSorted();
      const page = later.slice(0, PAGE);
      const last = page.at(-1);
      const items = page.map((key) => ({ key, putAt: 0 }));
      return { items, ...(later.length > PAGE && last !== undefined && { next: last as Cursor }) };
    },
    async remove(prefix: string) {
      keys.splice(0, keys.length, ...keys.filter((key) => !key.startsWith(prefix)));
    },
  };
}

const answers = (count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => `attempts/ns/a-${String(from + n).padStart(6, '0')}/answer`);

function scene(keys: string[], more: Partial<BlobSweepOptions> = {}) {
  const shelf = shelfOf(keys);
  const problems: unknown[] = [];
  const sweep = new BlobSweep({
    shelf,
    needed: async () => ({ events: new Set(), attempts: new Set() }),
    isNeeded: async () => false,
    now: () => Date.UTC(2026, 0, 1),
    report: (problem) => problems.push(problem),
    removed: () => undefined,
    ...more,
  });
  return { shelf, sweep, problems };
}

test('what the server cannot say anything about is left where it is, and told of', async () => {
  const { shelf, sweep, problems } = scene(answers(3), {
    isNeeded: async ({ name }) => {
      if (name === 'a-000001') throw new StoreError('unavailable', 'away');
      return false;
    },
  });
  assert.equal(await sweep.pass(), 2);
  assert.deepEqual(shelf.keys, answers(1, 1));
  assert.deepEqual(
    problems.map((problem) => (problem as Error).message),
    ['away'],
  );
});

test('a pass removes so much and no more, and the next one goes on', async () => {
  const { shelf, sweep } = scene(answers(2_300));
  assert.equal(await sweep.pass(), 1_000);
  assert.deepEqual(shelf.keys, answers(1_300, 1_000));
  assert.equal(await sweep.pass(), 1_000);
  assert.equal(await sweep.pass(), 300);
  assert.deepEqual(shelf.keys, []);
});

test('a pass looks at so much and no more, and the next one goes on and comes round', async () => {
  let looked = 0;
  const isNeeded = async ({ name }: { name: string }) => {
    looked++;
    return name < 'a-021000';
  };
  const { sweep } = scene(answers(21_500), { isNeeded });
  assert.equal(await sweep.pass(), 0);
  assert.equal(looked, 20_000);
  assert.equal(await sweep.pass(), 500, 'it came to the end');
  assert.equal(await sweep.pass(), 0, 'and began again');
  assert.equal(looked, 41_500);
});

test('a place that is no more is looked for from the beginning', async () => {
  const shelf = shelfOf(answers(2));
  let first = true;
  const list = async (cursor?: Cursor) => {
    const page = await shelf.list(cursor);
    return first ? { ...page, next: 'expired' as Cursor } : page;
  };
  const { sweep } = scene([], {
    shelf: { list, remove: (prefix) => shelf.remove(prefix) },
    isNeeded: async () => {
      first = false;
      return false;
    },
  });
  assert.equal(await sweep.pass(), 2);
});

test('it is done again and again until it is stopped, and told of when something was removed', async () => {
  const told: number[] = [];
  const { shelf, sweep } = scene(answers(2), { intervalMs: 1, removed: (entries) => void told.push(entries) });
  sweep.start();
  await eventually(() => assert.deepEqual(told, [2]));
  shelf.keys.push(...answers(1));
  await eventually(() => assert.deepEqual(told, [2, 1]));
  await sweep.stop();
});
