import { ONE_ROUND } from './steps-gate.ts';
import { testJobs } from './steps-jobs.ts';

testJobs('file', { rounds: ONE_ROUND, timeout: 600_000 });
