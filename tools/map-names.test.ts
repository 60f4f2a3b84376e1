import assert from 'node:assert/strict';
import { test } from 'node:test';
import { undeclaredNames } from './map-names.ts';

const read = (path: string) =>
  path === 'src/jobs/queue.ts' ? 'export class JobQueue {\n  async enqueue(job: Job) {}\n}\n' : undefined;
const problems = (row: string) => undeclaredNames(row, 'docs', read).map(({ message }) => message);

test('map: a row may name what its file declares, and members of that', () => {
  assert.deepEqual(problems('| 1 | the leader calls `JobQueue.enqueue` | [queue](../src/jobs/queue.ts) |'), []);
});

test('map: a name that no linked file declares is found', () => {
  assert.deepEqual(problems('| 1 | the leader calls `FairQueue` | [queue](../src/jobs/queue.ts) |'), [
    'FairQueue is declared in none of src/jobs/queue.ts',
  ]);
});

test('map: a renamed member is found', () => {
  assert.equal(problems('| 1 | `JobQueue.takeUp` | [queue](../src/jobs/queue.ts) |').length, 1);
});

test('map: words, settings and rows without a file are left alone', () => {
  const rows = [
    '| 1 | `queued` and `OSCAR_BACKEND` | [queue](../src/jobs/queue.ts) |',
    '| 1 | `FairQueue` | |',
    'The `FairQueue` in a sentence, [queue](../src/jobs/queue.ts)',
  ];
  assert.deepEqual(rows.flatMap(problems), []);
});
