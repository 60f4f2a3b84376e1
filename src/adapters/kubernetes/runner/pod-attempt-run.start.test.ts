import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AttemptStart, awaitsKeys, needsKeys, startProblem } from './pod-attempt-run.ts';
import { ATTEMPT } from './pods.fixture.ts';

const begun = (
  keys: Partial<Record<'needed' | 'neededAtStart', boolean> & Record<'given' | 'problem' | 'refusal', string>>,
): AttemptStart =>
  ({ attempt: ATTEMPT, fresh: true, keys: { needed: true, neededAtStart: false, ...keys } }) as unknown as AttemptStart;

const cases = [
  { name: 'keys that are there are not awaited', keys: { given: 'keys' }, awaits: false, needs: false },
  { name: 'where none are needed, none are awaited', keys: { needed: false }, awaits: false, needs: false },
  { name: 'keys for the output are awaited where a script may be over at once', keys: {}, awaits: true, needs: false },
  { name: 'but not where they cannot be had', keys: { problem: 'away' }, awaits: false, needs: false },
  { name: 'nothing begins without keys for the input', keys: { neededAtStart: true }, awaits: true, needs: true },
  {
    name: 'and if they cannot be had, that is the problem',
    keys: { neededAtStart: true, problem: 'no such user', refusal: 'no such user' },
    awaits: true,
    needs: true,
    problem: 'no such user',
  },
  {
    name: 'if they only cannot be had yet, it is none',
    keys: { neededAtStart: true, problem: 'away' },
    awaits: true,
    needs: true,
  },
];

for (const { name, keys, awaits, needs, problem } of cases) {
  test(name, () => {
    const it = begun(keys);
    assert.deepEqual([awaitsKeys(it), needsKeys(it), startProblem(it)], [awaits, needs, problem]);
  });
}

test('a name that leads elsewhere is a problem', () => {
  const it = begun({ given: 'keys' });
  const input = { kind: 'bytes', name: '../x', bytes: Buffer.from('') } as const;
  assert.match(startProblem({ ...it, attempt: { ...ATTEMPT, input } }) ?? '', /is no name of a file/);
});
