import { isMainThread } from 'node:worker_threads';

/**
 * Loaded before every file of the tests that `.ci/run` runs. Node limits how long a test may take, but not the file: one that has failed and left something
 * open is waited for without end, and nobody gets to see what failed.
 */
const LIMIT_MS = Number(process.env['OSCAR_TEST_FILE_LIMIT'] ?? 1_200_000);

// The runner itself loads this too.
if (process.env['NODE_TEST_CONTEXT'] && isMainThread) {
  const limit = setTimeout(() => {
    const open = process.getActiveResourcesInfo().join(', ') || 'nothing';
    process.stderr.write(`${process.argv[1]} has not ended within ${LIMIT_MS / 1000} s. Still open: ${open}.\n`);
    process.exit(1);
  }, LIMIT_MS);
  limit.unref();
}
