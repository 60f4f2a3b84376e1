import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AttemptStart, awaitsKeys, needsKeys, startProblem } from './pod-attempt-run.ts';
import { ATTEMPT } from './pods.fixture.ts';

const begun = (
  keys: Partial<Record<'needed' | 'neededAtStart', boolean> & Record<'given' | 'problem' | 'refusal', string>>,
): AttemptStart =>
  ({ attempt: ATTEMPT, fresh: true, keys: { needed: true, neededAtStart: false, ...keys } }) as unknown as AttemptStart;

const cases = [
  { name: 'existing keys are not awaited', keys: { given: 'keys' }, awaits: false, needs: false },
  { name: 'an attempt without keys awaits none', keys: { needed: false }, awaits: false, needs: false },
  { name: 'keys for the output are awaited', keys: {}, awaits: true, needs: false },
  { name: 'keys that cannot be issued are not awaited', keys: { problem: 'away' }, awaits: false, needs: false },
  {
    name: 'an attempt does not begin without keys for its input',
    keys: { neededAtStart: true },
    awaits: true,
    needs: true,
  },
  {
    name: 'rejected keys for the input are a problem',
    keys: { neededAtStart: true, problem: 'no such user', refusal: 'no such user' },
    awaits: true,
    needs: true,
    problem: 'no such user',
  },
  {
    name: 'an unavailable store is not a problem',
    keys: { neededAtStart: true, problem: 'away' },
    awaits: true,
    needs: true,
  },
];

for (const { name, keys, awaits, needs, problem } of cases) {
  test(`attempt start: ${name}`, () => {
    const it = begun(keys);
    assert.deepEqual([awaitsKeys(it), needsKeys(it), startProblem(it)], [awaits, needs, problem]);
  });
}

test('attempt start: an input name that leaves its directory is a problem', () => {
  const it = begun({ given: 'keys' });
  const input = { kind: 'bytes', name: '../x', bytes: Buffer.from('') } as const;
  assert.match(startProblem({ ...it, attempt: { ...ATTEMPT, input } }) ?? '', /is not a valid file name/);
});
