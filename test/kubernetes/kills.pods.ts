import { ONE_ROUND } from './kill-gate.ts';
import { testJobs } from './kill-jobs.ts';

testJobs('file', { rounds: ONE_ROUND, timeout: 600_000 });
