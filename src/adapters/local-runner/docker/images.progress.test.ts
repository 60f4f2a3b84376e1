import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type PullEvent, PullProgress } from './images.ts';

const bytes = (current: number, total: number) => ({ progressDetail: { current, total } });

test('pull progress: layers count by their size, and those of unknown size as the mean', () => {
  const progress = new PullProgress();
  const events: [PullEvent, number][] = [
    [{ status: 'Pulling from x', id: 'latest' }, 0],
    [{ status: 'Pulling fs layer', id: 'a' }, 0],
    [{ status: 'Pulling fs layer', id: 'b' }, 0],
    [{ status: 'Downloading', id: 'a', ...bytes(50, 100) }, 25],
    [{ status: 'Downloading', id: 'b', ...bytes(0, 300) }, 25],
    [{ status: 'Download complete', id: 'a' }, 25],
    [{ status: 'Downloading', id: 'b', ...bytes(200, 300) }, 75],
    [{ status: 'Extracting', id: 'a', ...bytes(1, 1_000_000) }, 75],
    [{ status: 'Pull complete', id: 'b' }, 100],
    [{ status: 'Digest: sha256:0' }, 100],
  ];
  for (const [event, percent] of events) assert.equal(progress.update(event), percent, JSON.stringify(event));
});

test('pull progress: a layer that exists already counts as downloaded', () => {
  const progress = new PullProgress();
  assert.equal(progress.update({ status: 'Already exists', id: 'a' }), 100);
});

const event = fc.record(
  {
    status: fc.constantFrom('Pulling fs layer', 'Waiting', 'Downloading', 'Download complete', 'Extracting', 'Odd'),
    id: fc.constantFrom('a', 'b', 'c'),
    progressDetail: fc.record({ current: fc.nat(), total: fc.nat() }, { requiredKeys: [] }),
  },
  { requiredKeys: ['status'] },
);

test('pull progress: the percentage stays between 0 and 100 and never falls, whatever the engine reports', () => {
  fc.assert(
    fc.property(fc.array(event), (events) => {
      const progress = new PullProgress();
      let last = 0;
      for (const each of events) {
        const percent = progress.update(each);
        assert.ok(percent >= last && percent <= 100 && percent % 5 === 0, `${last} then ${percent}`);
        last = percent;
      }
    }),
  );
});
