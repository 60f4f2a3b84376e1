import { POLICY_NAMES } from '../../model/service/index.ts';
import { describePolicy } from './policy.conformance.ts';

for (const policy of POLICY_NAMES) describePolicy(policy, { policy });

describePolicy('random with weights', {
  policy: 'random',
  weights: { 'cluster-0': 3, 'cluster-1': 0, 'cluster-2': 0.5 },
});
describePolicy('no policy', {});
