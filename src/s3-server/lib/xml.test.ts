import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { childElements, childText, readXml, writeXml } from './xml.ts';

test('XML: any text is written and parsed unchanged', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), (keys) => {
      const document = readXml(writeXml('Delete', { Object: keys.map((Key) => ({ Key })) }), 'Delete');
      assert.deepEqual(
        childElements(document, 'Object').map((each) => childText(each, 'Key')),
        keys,
      );
    }),
  );
});

test('XML: declarations, comments, attributes, prefixes, CDATA and references are parsed', () => {
  const text = `\ufeff<?xml version="1.0"?><!-- hello --><s3:Delete xmlns:s3="x" a='1'>
    <Object><Key>a&amp;b&#x20AC;<![CDATA[<&>]]></Key><Empty/></Object></s3:Delete>`;
  const [object] = childElements(readXml(text, 'Delete'), 'Object');
  assert.ok(object);
  assert.equal(childText(object, 'Key'), 'a&b€<&>');
  assert.equal(childText(object, 'Empty'), '');
});

const REFUSED = [
  { name: 'no content', text: '' },
  { name: 'text instead of XML', text: 'hello' },
  { name: 'another root element', text: '<Other/>' },
  { name: 'an element that does not end', text: '<Delete><Object></Delete>' },
  { name: 'two documents', text: '<Delete/><Delete/>' },
  { name: 'too many end tags', text: '<Delete/></Delete>' },
  {
    name: 'entities that grow (an XML bomb)',
    text: '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Delete>&b;</Delete>',
  },
  { name: 'a file of the server', text: '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><Delete>&f;</Delete>' },
  { name: 'an unknown entity', text: '<Delete>&nbsp;</Delete>' },
  { name: 'an entity without end', text: '<Delete>&amp</Delete>' },
  { name: 'an invalid character', text: '<Delete>&#xD800;</Delete>' },
  { name: 'ten thousand levels', text: '<Delete>'.repeat(10_000) },
];
for (const { name, text } of REFUSED) {
  test(`XML: a document with ${name} is rejected`, () => {
    assert.throws(() => readXml(text, 'Delete'), { code: 'MalformedXML' });
  });
}
