import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Stored } from '../client/kinds.ts';
import { ATTEMPT, CLAIMED, type Pod, WARM } from './pod.ts';
import { PodsByAttempt } from './pod-cache.ts';

const waits = (resourceVersion: string, name = 'w-1'): Stored<Pod> => ({
  metadata: { name, namespace: 'ns', uid: `uid-${name}`, resourceVersion, labels: { [ATTEMPT]: '', [WARM]: 'key' } },
  spec: {},
});

const claimed = (resourceVersion: string, attempt = 'cows-1'): Stored<Pod> => {
  const { metadata, spec } = waits(resourceVersion);
  return { metadata: { ...metadata, labels: { [ATTEMPT]: attempt }, annotations: { [CLAIMED]: '1' } }, spec };
};

function scene() {
  const told: string[] = [];
  const seen = new PodsByAttempt(
    { attempt: (name) => told.push(name), waiting: (name) => told.push(`waits: ${name}`) },
    (problem) => assert.fail(String(problem)),
  );
  const shown = () => ({ waiting: seen.waiting.names(), attempts: seen.attempts.names() });
  return { seen, told, shown };
}

test('pod cache: a warm pod is found by its name, and by its attempt once it has one', () => {
  const { seen, told, shown } = scene();
  seen.onChanged(waits('1'));
  assert.deepEqual(shown(), { waiting: ['w-1'], attempts: [] });
  seen.onChanged(claimed('2'));
  assert.deepEqual(shown(), { waiting: [], attempts: ['cows-1'] });
  assert.equal(seen.attempts.get('cows-1')?.metadata.name, 'w-1');
  assert.deepEqual(told, ['waits: w-1', 'waits: w-1', 'cows-1']);
  seen.onDeleted(claimed('3'));
  assert.deepEqual(shown(), { waiting: [], attempts: [] });
});

test('pod cache: an older update does not make a claimed pod warm again', () => {
  const { seen, shown } = scene();
  seen.put(claimed('5'));
  seen.onChanged(waits('4'));
  seen.onListed([waits('4')], '4');
  assert.deepEqual(shown(), { waiting: [], attempts: ['cows-1'] });
});

test('pod cache: a list replaces warm and claimed pods', () => {
  const { seen, shown } = scene();
  seen.onChanged(waits('1', 'w-0'));
  seen.onChanged(waits('2'));
  seen.onListed([claimed('3'), waits('4', 'w-2')], '4');
  assert.deepEqual(shown(), { waiting: ['w-2'], attempts: ['cows-1'] });
});

test('pod cache: a pod that was created for an attempt is found by the attempt', () => {
  const { seen, shown } = scene();
  const { metadata, spec } = waits('1', 'cows-2');
  seen.onChanged({ metadata: { ...metadata, labels: { [ATTEMPT]: 'cows-2' } }, spec });
  assert.deepEqual(shown(), { waiting: [], attempts: ['cows-2'] });
});
