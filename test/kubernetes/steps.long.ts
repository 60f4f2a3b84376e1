import { BOTH_ROUNDS } from './steps-gate.ts';
import { testJobs } from './steps-jobs.ts';
import { testServices } from './steps-services.ts';

testServices(BOTH_ROUNDS, 1_200_000);
testJobs('file', { rounds: BOTH_ROUNDS, timeout: 1_200_000 });
testJobs('call', { rounds: BOTH_ROUNDS, timeout: 1_200_000 });
