import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type ManifestFile, readManifest, writeManifest } from './manifest.ts';

const file = (name: string, more: object = {}) => ({
  name,
  size: 1,
  etag: 'd41d8cd98f00b204e9800998ecf8427e-2',
  ...more,
});
const bytesOf = (value: unknown) => Buffer.from(JSON.stringify(value));
const listing = (...files: unknown[]) => bytesOf({ version: 1, files });

test('manifest: the same files give the same bytes, sorted by the bytes of their names', () => {
  // In UTF-16 the emoji comes before U+FFFD, in UTF-8 after it.
  const names = ['b', '\u{1f600}', '\ufffd', 'a/z', 'a'];
  const text = Buffer.from(writeManifest(names.map((name) => file(name)))).toString();
  const entry = (name: string) => `{"name":"${name}","size":1,"etag":"${file('').etag}"}`;
  const sorted = ['a', 'a/z', 'b', '\ufffd', '\u{1f600}'].map(entry);
  assert.equal(text, `{"version":1,"files":[${sorted.join(',')}]}`);
  assert.deepEqual(writeManifest(names.toReversed().map((name) => file(name))), Buffer.from(text));
  assert.equal(Buffer.from(writeManifest([])).toString(), '{"version":1,"files":[]}');
});

test('manifest: it is read back unchanged', () => {
  const part = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
    .filter((each) => !/^\.{1,2}$|[/\0]/.test(each));
  const name = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
  const files = fc.uniqueArray(
    fc.record(
      { name, size: fc.maxSafeNat(), etag: fc.stringMatching(/^[0-9a-f]{32}(-\d{1,4})?$/) },
      { noNullPrototype: true },
    ),
    {
      selector: (each) => each.name,
    },
  );
  fc.assert(
    fc.property(files, (list: ManifestFile[]) => {
      const read = readManifest(writeManifest(list));
      assert.ok(typeof read !== 'string', JSON.stringify(read));
      const byName = (a: ManifestFile, b: ManifestFile) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));
      assert.deepEqual(read, list.toSorted(byName));
    }),
  );
});

const refused: [string, Uint8Array, RegExp][] = [
  ['something else', Buffer.from('hello'), /no list of files/],
  ['text that is not UTF-8', Buffer.concat([listing(), Buffer.of(0xff)]), /no list of files/],
  ['another version', bytesOf({ version: 2, files: [] }), /its version is 2/],
  ['no files', bytesOf({ version: 1 }), /no list of files/],
  ['files that are no list', bytesOf({ version: 1, files: {} }), /no list of files/],
  ['something more', bytesOf({ version: 1, files: [], more: 1 }), /no list of files/],
  ['an entry with something more', listing(file('a', { more: 1 })), /file 0 is none/],
  ['an entry that is no object', listing(file('a'), null), /file 1 is none/],
  ['a negative size', listing(file('a', { size: -1 })), /file 0 is none/],
  ['half a byte', listing(file('a', { size: 0.5 })), /file 0 is none/],
  ['an eTag with quotes', listing(file('a', { etag: '"x"' })), /file 0 is none/],
  ['no eTag', listing({ name: 'a', size: 1 }), /file 0 is none/],
  ['the same name twice', listing(file('a'), file('b'), file('a')), /it has "a" twice/],
  ['a NUL', listing(file('a\0b')), /no text/],
  ['half a character', Buffer.from('{"version":1,"files":[{"name":"\\ud800","size":1,"etag":"x"}]}'), /no text/],
  ['a name that is too long', listing(file('x/'.repeat(512) + 'x')), /more than 1024 bytes/],
  ['a name with a part that is too long', listing(file(`a/${'x'.repeat(256)}`)), /no file can have/],
  ...['', '/etc/passwd', '../up', 'a/../../up', 'a//b', 'a/', './a', '.', '..'].map(
    (name): [string, Uint8Array, RegExp] => [
      `the name ${JSON.stringify(name)}`,
      listing(file(name)),
      /no relative path/,
    ],
  ),
  ['too many files', listing(...Array.from({ length: 100_001 }, (_, n) => file(`${n}`))), /100001 files/],
];
for (const [what, bytes, message] of refused) {
  test(`manifest: ${what} is rejected`, () => {
    const read = readManifest(bytes);
    assert.ok(typeof read === 'string');
    assert.match(read, message);
  });
}
