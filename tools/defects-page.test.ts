import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withProofs } from './defects-page.ts';

const none = new Map<string, number[]>();
const lease = { path: 'src/lease.test.ts', text: "test('lease: it expires (F1, F2)', () => {});\n" };

test('defects page: tests that cite a defect are listed under it', () => {
  const page = '# Defects\n\n### F1\n\nProse.\n\n### F2\n\nMore.\n\n## Other\n\nText.\n';
  assert.equal(
    withProofs(page, [lease], none),
    '# Defects\n\n### F1\n\nProse.\n\n- `src/lease.test.ts`: lease: it expires (F1, F2)\n\n' +
      '### F2\n\nMore.\n\n- `src/lease.test.ts`: lease: it expires (F1, F2)\n\n## Other\n\nText.\n',
  );
});

test('defects page: a page that is up to date is not changed', () => {
  const page = withProofs('### F1\n\nProse.\n\n### F3\n\nP.\n', [lease], new Map([['F3', [7, 8]]]));
  assert.match(page, /P\.\n\n- `test\/compatibility\/compatibility\.test\.ts`: exchanges 7, 8\n$/);
  assert.equal(withProofs(page, [lease], new Map([['F3', [7, 8]]])), page);
});

test('defects page: a test that was renamed or moved is listed under its new name', () => {
  const before = '### F1\n\nProse.\n\n- `src/old.test.ts`: an old name (F1)\n';
  assert.equal(
    withProofs(before, [lease], none),
    '### F1\n\nProse.\n\n- `src/lease.test.ts`: lease: it expires (F1, F2)\n',
  );
});

test('defects page: a defect that lost its last test says so, and one that is not built does not', () => {
  const page = '### F1\n\nProse.\n\n- `src/old.test.ts`: an old name (F1)\n\n### V1\n\nP. Not built yet.\n';
  assert.equal(withProofs(page, [], none), '### F1\n\nProse.\n\nNo test.\n\n### V1\n\nP. Not built yet.\n');
});

test('defects page: an entry written by hand stays while its test is there', () => {
  const page = '### F3\n\nProse.\n\n- `src/lease.test.ts`: it expires\n- `src/lease.test.ts`\n';
  assert.equal(withProofs(page, [lease], none), page);
});

for (const [name, entry, message] of [
  [
    'a test that is not in its file',
    '`src/lease.test.ts`: it ends',
    /F3 names a test that src\/lease\.test\.ts does not/,
  ],
  ['a file that is not there', '`src/gone.test.ts`', /F3 names src\/gone\.test\.ts, which is not a test file/],
] as const) {
  test(`defects page: an entry written by hand for ${name} is an error`, () => {
    assert.throws(() => withProofs(`### F3\n\nProse.\n\n- ${entry}\n`, [lease], none), { message });
  });
}

test('defects page: a comment is not a test', () => {
  const text = "// 'it expires (F1)'\n * 'it (F1)'\nconst x = f(F1);\n";
  assert.match(withProofs('### F1\n\nP.\n', [{ path: 'a.test.ts', text }], none), /No test\.\n$/);
});
