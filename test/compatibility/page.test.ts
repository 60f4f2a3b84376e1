import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIFFERENCES } from './differences.ts';
import { renderCompatibility } from './page.ts';

const page = renderCompatibility();

test('the page has a section for every difference', () => {
  for (const { title } of DIFFERENCES) assert.equal(page.split(`\n### ${title}\n`).length, 2, title);
});

test('ids and titles of differences are unique', () => {
  assert.equal(new Set(DIFFERENCES.map(({ id }) => id)).size, DIFFERENCES.length);
  assert.equal(new Set(DIFFERENCES.map(({ title }) => title)).size, DIFFERENCES.length);
});

test('the areas add up to all exchanges', () => {
  const rows = [...page.matchAll(/^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$/gm)];
  const total = rows.flatMap(([, ...counts]) => counts.map(Number)).reduce((sum, count) => sum + count, 0);
  assert.equal(total, 616);
});
