import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeLabels, tolerations } from './nodes.ts';

const context = { files: () => '', valueOf: () => undefined };

test('node labels: key and value', () => {
  assert.deepEqual(nodeLabels.parse('oscar=jobs, example.org/gpu=', context), {
    value: [
      ['oscar', 'jobs'],
      ['example.org/gpu', ''],
    ],
  });
});

for (const text of ['=jobs', 'a b=c', 'a=b c', 'a=b=c']) {
  test(`node labels: ${JSON.stringify(text)} is rejected`, () => {
    const parsed = nodeLabels.parse(text, context);
    assert.ok('problems' in parsed);
    assert.match(parsed.problems[0]?.text ?? '', /accepted is labels such as/);
  });
}

const TAINTS = [
  {
    text: 'dedicated=oscar:NoSchedule',
    is: { key: 'dedicated', operator: 'Equal', value: 'oscar', effect: 'NoSchedule' },
  },
  { text: 'dedicated:NoExecute', is: { key: 'dedicated', operator: 'Exists', effect: 'NoExecute' } },
  { text: 'example.org/edge', is: { key: 'example.org/edge', operator: 'Exists' } },
];
for (const { text, is } of TAINTS) {
  test(`tolerations: ${text} is parsed as in Kubernetes`, () =>
    assert.deepEqual(tolerations.parse(text, context), { value: [is] }));
}

for (const text of [':NoSchedule', 'a=b:Never', 'a b', 'a=b c:NoSchedule']) {
  test(`tolerations: ${JSON.stringify(text)} is rejected`, () =>
    assert.ok('problems' in tolerations.parse(text, context)));
}
