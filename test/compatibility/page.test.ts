import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIFFERENCES } from './differences.ts';
import { renderCompatibility } from './page.ts';

const page = renderCompatibility();

test('compatibility page: every difference has a section', () => {
  for (const { title } of DIFFERENCES) assert.equal(page.split(`\n### ${title}\n`).length, 2, title);
});

test('compatibility page: ids and titles are unique', () => {
  assert.equal(new Set(DIFFERENCES.map(({ id }) => id)).size, DIFFERENCES.length);
  assert.equal(new Set(DIFFERENCES.map(({ title }) => title)).size, DIFFERENCES.length);
});

test('compatibility page: the areas add up to all exchanges', () => {
  const rows = [...page.matchAll(/^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$/gm)];
  const total = rows.flatMap(([, ...counts]) => counts.map(Number)).reduce((sum, count) => sum + count, 0);
  assert.equal(total, 616);
});
