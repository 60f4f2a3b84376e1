import { BOTH_ROUNDS } from './steps-gate.ts';
import { testOrigin } from './steps-origin.ts';
import { testTarget } from './steps-target.ts';

testOrigin(BOTH_ROUNDS, 1_200_000);
testTarget(BOTH_ROUNDS, 1_200_000);
