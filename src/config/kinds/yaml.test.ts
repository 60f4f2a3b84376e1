import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseYaml, parseYamlMap } from './yaml.ts';

test('YAML: scalars stay as written', () => {
  assert.deepEqual(parseYaml('{a: 0123, b: true, c: 1e3, d: "null", e: [1.0, x], f: ~, g: }'), {
    value: new Map<string, unknown>([
      ['a', '0123'],
      ['b', 'true'],
      ['c', '1e3'],
      ['d', 'null'],
      ['e', ['1.0', 'x']],
      ['f', null],
      ['g', null],
    ]),
  });
});

test('YAML: each key of a map has its position', () => {
  const parsed = parseYamlMap('# settings\nA: 1\n"B":\n  - x\n');
  assert.ok('value' in parsed);
  assert.deepEqual(
    [...parsed.value],
    [
      ['A', { raw: '1', line: 2, column: 1 }],
      ['B', { raw: ['x'], line: 3, column: 1 }],
    ],
  );
});

test('YAML: an empty text is an empty map, a list or scalar is a problem', () => {
  for (const text of ['', '# nothing yet\n']) assert.deepEqual(parseYamlMap(text), { value: new Map() });
  for (const text of ['- a', 'a']) assert.ok('problems' in parseYamlMap(text));
});

const broken = [
  'A: hunter2\n b: hunter2',
  'A: "hunter2',
  'A: [hunter2]]',
  ' A: x\nhunter2: y',
  'A: *hunter2',
  'A: @hunter2',
  'A: "\\hunter2"',
  'A: {b: hunter2',
  'A: hunter2\nA: hunter2',
  '? [hunter2]\n: x',
  'A: b\n---\nhunter2: c',
];
for (const text of broken) {
  test(`YAML: the problem of ${JSON.stringify(text)} does not quote it`, () => {
    const parsed = parseYaml(text);
    assert.ok('problems' in parsed);
    const [problem] = parsed.problems;
    assert.match(problem?.text ?? '', /^is not YAML(, line \d+, column \d+)?: \w+/);
    assert.doesNotMatch(problem?.text ?? '', /hunter2|unter2/);
  });
}
