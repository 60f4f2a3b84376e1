import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isNewer } from './kinds.ts';

test('resource versions: they are compared as numbers of any length', () => {
  assert.ok(isNewer('100', '99'));
  assert.ok(isNewer('18446744073709551615', '18446744073709551614'));
  assert.ok(!isNewer('99', '100'));
  assert.ok(!isNewer('7', '7'));
});
