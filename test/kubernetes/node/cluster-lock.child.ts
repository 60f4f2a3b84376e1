import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { removeCluster } from './cleanup.ts';
import { clusterNames, LOCK_HELD_EXIT_CODE } from './names.ts';

/**
 * Holds the number of a cluster while a test uses it, and cleans up behind the test, however that ended: its standard input
 * is the other end of a pipe. The lock goes with this process, and not before everything else has gone.
 */
const names = clusterNames(Number(process.argv[2]));
const lock = createServer();
try {
  // Not a file: a name that only exists while somebody listens.
  await once(lock.listen(`\0${names.name}`), 'listening');
} catch (error) {
  if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
  process.exit(LOCK_HELD_EXIT_CODE);
}
await removeCluster(names);
mkdirSync(names.directory, { mode: 0o755 });
process.stdout.write('held\n');
await once(process.stdin.resume(), 'end');
await removeCluster(names);
lock.close();
