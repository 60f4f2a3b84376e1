import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readConfig } from '../src/config/index.ts';
import { IGNORED_NAMES } from '../src/config/read-config.ts';
import { SETTINGS } from '../src/config/settings.ts';
import { renderConfiguration } from './configuration-page.ts';

const page = renderConfiguration();

test('the page names every setting, once in its own row', () => {
  for (const { name } of Object.values(SETTINGS)) {
    assert.equal(page.split(`\n| \`${name}\` |`).length, 2, name);
  }
});

test('the page names what is ignored', () => {
  for (const name of IGNORED_NAMES) assert.ok(page.includes(`\`${name}\``), name);
});

const cells = (row: string) => row.split(/(?<!\\)\|/).length;

test('every row of a table has as many cells as its head', () => {
  for (const block of page
    .trimEnd()
    .split('\n\n')
    .filter((text) => text.startsWith('|'))) {
    const [head = '', ...rows] = block.split('\n');
    for (const row of rows) assert.equal(cells(row), cells(head), row);
  }
});

test('the links of the page lead somewhere', () => {
  const anchors = [...page.matchAll(/^## (.+)$/gm)].map(([, title = '']) => title.toLowerCase().replaceAll(' ', '-'));
  for (const [, anchor = ''] of page.matchAll(/\]\(#([^)]+)\)/g)) assert.ok(anchors.includes(anchor), anchor);
});

test('the examples of the page are accepted', () => {
  const examples = [...page.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => text);
  assert.equal(examples.length, 3);
  for (const text of examples) readConfig({ OSCAR_CONFIG: 'oscar.yaml' }, () => text);
});
