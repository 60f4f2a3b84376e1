import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDefinition, ServiceSchema } from '../src/model/service/index.ts';
import { findUnsupported } from '../src/services/admit.ts';
import { readPage } from './check-docs-page.ts';
import { fdlTables, withFdlTables } from './fdl-tables.ts';

const tables = fdlTables();
const rowsOf = (key: string) => tables.split('\n').filter((line) => line.startsWith(`| \`${key}\` |`));

const SET_BY_MANAGER = ['token', 'owner', 'namespace', 'bucket_list', 'volume_status', 'deployment'];

test('every key that a user may write has a row, and what the manager sets has none', () => {
  const [service = ''] = tables.split('\n\n### ');
  for (const key of Object.keys(ServiceSchema.properties)) {
    const rows = service.split('\n').filter((line) => line.startsWith(`| \`${key}\` |`));
    assert.equal(rows.length, SET_BY_MANAGER.includes(key) ? 0 : 1, key);
  }
});

test('what the manager refuses so far is said to be so', () => {
  const everything = {
    name: 'demo',
    image: 'busybox',
    script: 'true',
    volume: { mount_path: '/data' },
    mount: { storage_provider: 'minio.default', path: 'a/b' },
    expose: { api_port: 80 },
    kserve: { type: 'inference', storage_uri: 's3://m' },
    interlink_node_name: 'node',
    total_cpu: '1',
    total_memory: '1Gi',
  };
  const refused = findUnsupported(readDefinition(everything).definition);
  assert.equal(refused.length, 7);
  for (const key of refused) assert.match(rowsOf(key).join(), /Not supported yet/, key);
});

test('every link of the tables leads to one of them', () => {
  const { links, anchors } = readPage(tables);
  assert.ok(links.length > 5);
  for (const { target } of links) assert.ok(anchors.has(target.slice(1)), target);
});

test('blocks with the same keys have one table', () => {
  assert.match(rowsOf('output').join(), /\[`input\[\]`\]\(#input\)/);
  assert.ok(!tables.includes('### `output[]`'));
});

test('both forms of a key are told', () => {
  assert.match(rowsOf('cpu').join(), /text, or number .* `0\.2`/);
  assert.match(rowsOf('delegation').join(), /`fastest`, or `\{mode, weights\}`/);
});

test('the tables stand between their marks, and the rest of the page stays', () => {
  const made = withFdlTables(`# Page\n\n${marks('of before\n')}\nThe end.\n`);
  assert.ok(made.startsWith('# Page\n\n<!-- Made') && made.endsWith('-->\n\nThe end.\n'));
  assert.ok(made.includes(tables) && !made.includes('of before'));
  assert.equal(withFdlTables(made), made);
  assert.throws(() => withFdlTables('# Page\n'), /the page has no/);
});

const marks = (text: string) =>
  `<!-- Made by tools/generate-docs.ts from src/model/service/schema.ts; changes made here are lost. -->\n${text}<!-- Here ends what is made. -->\n`;
