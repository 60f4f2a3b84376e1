import { describePolicy } from './policy.conformance.ts';
import { POLICIES } from './policy.ts';

for (const policy of POLICIES) describePolicy(policy, { policy });

describePolicy('random with weights', {
  policy: 'random',
  weights: { 'cluster-0': 3, 'cluster-1': 0, 'cluster-2': 0.5 },
});
describePolicy('no policy', {});
