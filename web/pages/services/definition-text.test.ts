import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { formatOf, parseText, suggest, toText, withValue } from './definition-text.ts';

const problems = (text: string) =>
  parseText(text).problems.map(({ line, message, severity }) => `${line} ${severity}: ${message}`);

describe('definition text: problems at their line', () => {
  test('definition text: a complete definition has none, in YAML and in JSON', () => {
    const definition = { name: 'a', image: 'b', script: 'true', federation: { delegation: 'fastest' } };
    for (const format of ['yaml', 'json'] as const) {
      const text = toText(definition, format);
      assert.equal(formatOf(text), format);
      assert.deepEqual(parseText(text), { definition, problems: [] });
    }
  });

  const cases: [name: string, text: string, expected: string[]][] = [
    ['a missing key', 'name: a\nimage: b\n', ['1 error: "script" is missing']],
    ['a wrong type', 'name: a\nimage: b\nscript: x\ninput: here\n', ['4 error: input: must be an array']],
    [
      'a value that is none of the allowed',
      'name: a\nimage: b\nscript: x\nvisibility: open\n',
      ['4 error: visibility: must be one of private, restricted, public'],
    ],
    [
      'a nested value',
      'name: a\nimage: b\nscript: x\nfederation:\n  members:\n    - priority: high\n',
      ['6 error: federation.members.0.priority: must be an integer'],
    ],
    [
      'an unknown key is a warning',
      'name: a\nimage: b\nscript: x\nmemroy: 1Gi\n',
      ['4 warning: "memroy" is not a key of a definition: the manager ignores it'],
    ],
    ['no object', 'hello', ['1 error: a definition is an object: begin with "name: …"']],
    ['nothing', '', ['1 error: a definition is an object: begin with "name: …"']],
  ];
  for (const [name, text, expected] of cases) {
    test(`definition text: ${name}`, () => assert.deepEqual(problems(text), expected));
  }

  test('definition text: text that is no YAML has an error at its line', () => {
    const [first] = parseText('name: a\nimage: [b\nscript: x\n').problems;
    assert.equal(first?.severity, 'error');
    assert.ok((first?.line ?? 0) >= 2);
    assert.equal(parseText('{ "name": "a",').definition, undefined);
  });
});

describe('definition text: completion', () => {
  const labels = (text: string) => {
    const position = text.indexOf('|');
    return suggest(text.replace('|', ''), position)?.items.map(({ label }) => label) ?? [];
  };

  test('definition text: keys of the object at the cursor that are not there yet', () => {
    const found = labels('name: a\nim|');
    assert.ok(found.includes('image') && !found.includes('name'));
    assert.ok(labels('name: a\nfederation:\n  top|').includes('topology'));
    assert.ok(labels('federation:\n  members:\n    - cluster_id: x\n      |').includes('priority'));
    assert.ok(labels('{ "name": "a", "im|" }').includes('image'));
    assert.ok(labels('{ "federation": { | } }').includes('delegation'));
  });

  test('definition text: the allowed values of the key at the cursor', () => {
    assert.deepEqual(labels('name: a\nvisibility: p|'), ['private', 'restricted', 'public']);
    assert.deepEqual(labels('alpine: |'), ['true', 'false']);
    assert.ok(labels('federation:\n  delegation: |').includes('fastest'));
    assert.deepEqual(labels('{ "visibility": "|" }'), ['private', 'restricted', 'public']);
  });
});

test('definition text: the form changes one value and keeps comments and order', () => {
  const text = '# mine\nname: a # short\nimage: b\n';
  assert.equal(withValue(text, ['image'], 'c'), '# mine\nname: a # short\nimage: c\n');
  assert.equal(withValue(text, ['federation', 'topology'], 'star'), `${text}federation:\n  topology: star\n`);
  assert.equal(withValue(text, ['image'], undefined), '# mine\nname: a # short\n');
  assert.equal(withValue('{"name":"a"}', ['image'], 'b'), '{\n  "name": "a",\n  "image": "b"\n}\n');
});
