import { ONE_ROUND } from './steps-gate.ts';
import { testJobs } from './steps-jobs.ts';

testJobs('file', ONE_ROUND, 600_000);
