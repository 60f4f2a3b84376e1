import { BOTH_ROUNDS } from './steps-gate.ts';
import { testOrigin } from './steps-origin.ts';
import { testTarget } from './steps-target.ts';

const ROUNDS = { rounds: BOTH_ROUNDS, timeout: 1_200_000 };

testOrigin(ROUNDS);
testTarget(ROUNDS);
