import assert from 'node:assert/strict';
import { test } from 'node:test';
import { closest } from './closest.ts';

const names = ['OSCAR_LISTEN', 'OSCAR_CLUSTERS', 'OSCAR_CLUSTER_ID', 'TTL_JOB', 'ca'];

const cases = [
  { name: 'a letter that is missing is noticed', written: 'OSCAR_LISTN', suggestion: ', did you mean OSCAR_LISTEN?' },
  { name: 'letters that are swapped are noticed', written: 'OSCAR_LSITEN', suggestion: ', did you mean OSCAR_LISTEN?' },
  {
    name: 'small letters and hyphens are noticed',
    written: 'oscar-listen',
    suggestion: ', did you mean OSCAR_LISTEN?',
  },
  {
    name: 'the nearest of several is suggested',
    written: 'OSCAR_CLUSTER',
    suggestion: ', did you mean OSCAR_CLUSTERS?',
  },
  { name: 'nothing is suggested for what is like nothing', written: 'OSCAR_COLOUR', suggestion: '' },
  { name: 'a short name is not suggested for every short word', written: 'ip', suggestion: '' },
];
for (const { name, written, suggestion } of cases) test(name, () => assert.equal(closest(written, names), suggestion));

test('closest: long texts are not compared letter by letter', () => {
  // To compare them would take 10^12 steps.
  const long = 'a'.repeat(1_000_000);
  assert.equal(closest(`${long}b`, [long, ...names]), '');
});
