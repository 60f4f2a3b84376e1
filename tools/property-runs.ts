import { configureGlobal } from 'fast-check';

/** Loaded before every test file by `npm run test:long`: more runs of each property, from a seed that was printed. */
const { OSCAR_TEST_RUNS: runs, OSCAR_TEST_SEED: seed } = process.env;
configureGlobal({ ...(runs && { numRuns: Number(runs) }), ...(seed && { seed: Number(seed) }) });
