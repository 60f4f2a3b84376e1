import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../runner/index.ts';
import { toDeployment } from './knative-cache.ts';
import type { KnativeService } from './knative-service.ts';

const pod = (phase: 'Pending' | 'Running' | 'Succeeded', ready = false): Pod => ({
  metadata: { name: 'pod' },
  spec: {},
  status: { phase, conditions: [{ type: 'Ready', status: ready ? 'True' : 'False' }] },
});

const service = (status: string, more: object = {}): KnativeService => ({
  metadata: { name: 'x' },
  status: {
    conditions: [
      { type: 'RoutesReady', status: 'True' },
      { type: 'Ready', status, ...more },
    ],
  },
});

const cases = [
  { name: 'one that is ready is, also without a pod', of: service('True'), pods: [], is: ['ready', 0, 0] },
  {
    name: 'of one that is ready no pod is affected, whatever it does',
    of: service('True'),
    pods: [pod('Pending'), pod('Running', true), pod('Succeeded')],
    is: ['ready', 2, 0],
  },
  {
    name: 'one that is not, and has no pod that is well, has failed',
    of: service('False'),
    pods: [pod('Pending')],
    is: ['failed', 1, 1],
  },
  {
    name: 'with a pod that is well it is degraded',
    of: service('False'),
    pods: [pod('Pending'), pod('Running', true)],
    is: ['degraded', 2, 1],
  },
  {
    name: 'one of which nothing is known yet is pending',
    of: service('Unknown'),
    pods: [pod('Pending')],
    is: ['pending', 1, 1],
  },
  { name: 'so is one that is not there', of: undefined, pods: [], is: ['pending', 0, 0] },
];
for (const { name, of, pods, is } of cases) {
  test(name, () => {
    const { state, active_instances, affected_instances, resource_kind } = toDeployment(of, pods);
    assert.deepEqual([state, active_instances, affected_instances], is);
    assert.equal(resource_kind, 'knative_service');
  });
}

test('Knative cache: reason and time of a condition are those of Knative', () => {
  const more = { reason: 'RevisionMissing', message: 'no image', lastTransitionTime: '2026-01-01T00:00:00Z' };
  const { reason, last_transition_time } = toDeployment(service('False', more), []);
  assert.deepEqual([reason, last_transition_time], ['RevisionMissing: no image', '2026-01-01T00:00:00Z']);
});
