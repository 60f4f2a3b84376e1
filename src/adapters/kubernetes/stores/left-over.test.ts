import assert from 'node:assert/strict';
import { test } from 'node:test';
import { suspectsIn } from './blob-sweep.ts';

const NOW = Date.UTC(2026, 0, 1);
const OLD = NOW - 61 * 60_000;

const cases = [
  { name: 'what is old and known to nobody is suspect', key: 'events/ns/job-1/v1', suspect: 'job ns/job-1' },
  { name: 'so is what an attempt has left', key: 'attempts/ns/job-1/answer', suspect: 'attempt ns/job-1' },
  {
    name: 'what is younger than an hour may be of something that is being made',
    key: 'events/ns/job-1/v1',
    putAt: NOW - 59 * 60_000,
  },
  {
    name: 'what was put by a clock that is ahead is not old',
    key: 'attempts/ns/job-1/input',
    putAt: NOW + 10 * 60_000,
  },
  { name: 'the event of a job stays', key: 'events/ns/job-2/v1' },
  { name: 'another event of that job was put in vain', key: 'events/ns/job-2/v2', suspect: 'job ns/job-2' },
  { name: 'what an attempt has that is there stays', key: 'attempts/ns/job-2/answer' },
  { name: 'what is in no room of ours is left alone', key: 'others/ns/job-1/x' },
  { name: 'what is named in another way is left alone', key: 'events/job-1' },
  { name: 'what lies deeper is left alone', key: 'attempts/ns/job-1/a/b' },
];
for (const { name, key, putAt = OLD, suspect } of cases) {
  test(name, () => {
    const needed = { events: new Set(['events/ns/job-2/v1']), attempts: new Set(['job-2']) };
    const found = suspectsIn([{ key, putAt }], needed, NOW);
    assert.deepEqual(
      found.map(({ of, namespace, name: whose }) => `${of} ${namespace}/${whose}`),
      suspect === undefined ? [] : [suspect],
    );
    assert.deepEqual(
      found.map((each) => each.key),
      suspect === undefined ? [] : [key],
    );
  });
}
