import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findSuspects } from './blob-sweep.ts';

const NOW = Date.UTC(2026, 0, 1);
const OLD = NOW - 61 * 60_000;

const cases = [
  { name: 'an old event that is not referenced is a suspect', key: 'events/ns/job-1/v1', suspect: 'job ns/job-1' },
  {
    name: 'an old blob of an unknown attempt is a suspect',
    key: 'attempts/ns/job-1/answer',
    suspect: 'attempt ns/job-1',
  },
  {
    name: 'a blob younger than an hour may belong to a job that is being created',
    key: 'events/ns/job-1/v1',
    putAt: NOW - 59 * 60_000,
  },
  {
    name: 'a blob with a time in the future is not old',
    key: 'attempts/ns/job-1/input',
    putAt: NOW + 10 * 60_000,
  },
  { name: 'a referenced event stays', key: 'events/ns/job-2/v1' },
  { name: 'an unused second event of a job is a suspect', key: 'events/ns/job-2/v2', suspect: 'job ns/job-2' },
  { name: 'a blob of an existing attempt stays', key: 'attempts/ns/job-2/answer' },
  { name: 'a key in an unknown folder is ignored', key: 'others/ns/job-1/x' },
  { name: 'a key with too few parts is ignored', key: 'events/job-1' },
  { name: 'a key with too many parts is ignored', key: 'attempts/ns/job-1/a/b' },
];
for (const { name, key, putAt = OLD, suspect } of cases) {
  test(`blob sweep: ${name}`, () => {
    const referenced = { events: new Set(['events/ns/job-2/v1']), attempts: new Set(['job-2']) };
    const found = findSuspects([{ key, putAt }], referenced, NOW);
    assert.deepEqual(
      found.map(({ owner: of, namespace, name: whose }) => `${of} ${namespace}/${whose}`),
      suspect === undefined ? [] : [suspect],
    );
    assert.deepEqual(
      found.map((each) => each.key),
      suspect === undefined ? [] : [key],
    );
  });
}
