import { BOTH_ROUNDS } from './kill-gate.ts';
import { testJobs } from './kill-jobs.ts';
import { testServices } from './kill-services.ts';

testServices(BOTH_ROUNDS, 1_200_000);
testJobs('file', { rounds: BOTH_ROUNDS, timeout: 1_200_000 });
testJobs('call', { rounds: BOTH_ROUNDS, timeout: 1_200_000 });
