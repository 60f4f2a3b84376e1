import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLocation, toPath } from './router.ts';

test('router: a path and its query survive the way to the address and back', () => {
  const to = toPath(['jobs', 'a b', 'x/y'], { state: 'failed', service: '' });
  assert.equal(to, '/ui/jobs/a%20b/x%2Fy?state=failed');
  const { path, query } = parseLocation(to);
  assert.deepEqual([path, query.get('state')], [['jobs', 'a b', 'x/y'], 'failed']);
});

test('router: an address outside of the page is its first view', () => {
  assert.deepEqual(parseLocation('/elsewhere').path, []);
});
