import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cursor } from '../../../lib/version.ts';
import { eventually } from '../../../ports/conformance/eventually.ts';
import { StoreError } from '../../../ports/index.ts';
import { BlobSweep, type BlobSweepOptions } from './blob-sweep.ts';

const PAGE = 500;

/** A blob store with these keys, all of them old, in pages. The real stores are tested with their object stores. */
function fakeBlobs(keys: string[]) {
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

function setUp(keys: string[], more: Partial<BlobSweepOptions> = {}) {
  const blobs = fakeBlobs(keys);
  const problems: unknown[] = [];
  const sweep = new BlobSweep({
    blobs,
    referenced: async () => ({ events: new Set(), attempts: new Set() }),
    isReferenced: async () => false,
    now: () => Date.UTC(2026, 0, 1),
    report: (problem) => problems.push(problem),
    onRemoved: () => undefined,
    ...more,
  });
  return { blobs, sweep, problems };
}

test('blob sweep: a blob that the API server cannot check stays, and the problem is reported', async () => {
  const { blobs, sweep, problems } = setUp(answers(3), {
    isReferenced: async ({ name }) => {
      if (name === 'a-000001') throw new StoreError('unavailable', 'away');
      return false;
    },
  });
  assert.equal(await sweep.pass(), 2);
  assert.deepEqual(blobs.keys, answers(1, 1));
  assert.deepEqual(
    problems.map((problem) => (problem as Error).message),
    ['away'],
  );
});

test('blob sweep: a pass removes a limited number of blobs, and the next pass continues', async () => {
  const { blobs, sweep } = setUp(answers(2_300));
  assert.equal(await sweep.pass(), 1_000);
  assert.deepEqual(blobs.keys, answers(1_300, 1_000));
  assert.equal(await sweep.pass(), 1_000);
  assert.equal(await sweep.pass(), 300);
  assert.deepEqual(blobs.keys, []);
});

test('blob sweep: a pass checks a limited number of blobs, and later passes continue and start over', async () => {
  let checked = 0;
  const isReferenced = async ({ name }: { name: string }) => {
    checked++;
    return name < 'a-021000';
  };
  const { sweep } = setUp(answers(21_500), { isReferenced });
  assert.equal(await sweep.pass(), 0);
  assert.equal(checked, 20_000);
  assert.equal(await sweep.pass(), 500, 'reaches the end');
  assert.equal(await sweep.pass(), 0, 'starts over');
  assert.equal(checked, 41_500);
});

test('blob sweep: an expired cursor restarts the list', async () => {
  const blobs = fakeBlobs(answers(2));
  let first = true;
  const list = async (cursor?: Cursor) => {
    const page = await blobs.list(cursor);
    return first ? { ...page, next: 'expired' as Cursor } : page;
  };
  const { sweep } = setUp([], {
    blobs: { list, remove: (prefix) => blobs.remove(prefix) },
    isReferenced: async () => {
      first = false;
      return false;
    },
  });
  assert.equal(await sweep.pass(), 2);
});

test('blob sweep: passes repeat until it is stopped, and removals are reported', async () => {
  const reported: number[] = [];
  const { blobs, sweep } = setUp(answers(2), { intervalMs: 1, onRemoved: (entries) => void reported.push(entries) });
  sweep.start();
  await eventually(() => assert.deepEqual(reported, [2]));
  blobs.keys.push(...answers(1));
  await eventually(() => assert.deepEqual(reported, [2, 1]));
  await sweep.stop();
});
