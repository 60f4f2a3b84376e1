import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DELEGATED_ANNOTATION, evictionReason, waitingReason } from './workload-reasons.ts';

type Conditions = Record<string, readonly ['True' | 'False', string]>;

const workload = (said: Conditions, active?: boolean, annotations = {}) => ({
  metadata: { name: 'w', annotations },
  spec: { ...(active !== undefined && { active }) },
  status: { conditions: Object.entries(said).map(([type, [status, message]]) => ({ type, status, message })) },
});

const cases = [
  { name: 'before Kueue has seen it', of: undefined, says: 'waits for its queue lq' },
  { name: 'before Kueue has said anything', of: workload({}), says: 'waits for its queue lq' },
  {
    name: 'with the message of Kueue',
    of: workload({ QuotaReserved: ['False', 'insufficient unused quota for cpu'] }),
    says: 'waits for its queue lq: insufficient unused quota for cpu',
  },
  {
    name: 'while admission checks run',
    of: workload({ QuotaReserved: ['True', 'Quota reserved'], Admitted: ['False', ''] }),
    says: 'waits for its queue lq: it has its quota, and is being checked',
  },
  {
    name: 'without details when it has just been admitted',
    of: workload({ QuotaReserved: ['True', ''], Admitted: ['True', ''] }),
    says: 'waits for its queue lq',
  },
  {
    name: 'while it comes back from another cluster',
    of: workload({}, false, { [DELEGATED_ANNOTATION]: 'true' }),
    says: 'waits for its queue lq: it comes back from another cluster',
  },
  {
    name: 'when an operator has deactivated its Workload',
    of: workload({}, false),
    says: 'waits for its queue lq: its Workload was deactivated',
  },
];
for (const { name, of, says } of cases)
  test(`waiting reason: ${name}`, () => assert.equal(waitingReason('lq', of), says));

test('eviction reason: a job that may not continue has the message of Kueue', () => {
  const evicted = workload({ Evicted: ['True', 'The ClusterQueue is stopped'] });
  assert.equal(evictionReason('lq', evicted), 'its queue lq does not let it go on: The ClusterQueue is stopped');
  assert.equal(evictionReason('lq', undefined), 'its queue lq does not let it go on');
});
