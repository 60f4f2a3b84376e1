import { BOTH_ROUNDS } from './kill-gate.ts';
import { testOrigin } from './kill-origin.ts';
import { testTarget } from './kill-target.ts';

const ROUNDS = { rounds: BOTH_ROUNDS, timeout: 1_200_000 };

testOrigin(ROUNDS);
testTarget(ROUNDS);
