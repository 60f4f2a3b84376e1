import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { removeCluster } from './cleanup.ts';
import { clusterNames, LOCK_HELD_EXIT_CODE } from './names.ts';

/**
 * Holds the lock on the number of a cluster while a test uses it, and removes the cluster when the test ends, even if
 * the test process is killed: then its end of the pipe to our standard input closes. The lock ends with this process,
 * after everything else is removed.
 */
const names = clusterNames(Number(process.argv[2]));
const lock = createServer();
try {
  // An abstract socket, not a file: the name exists only while this process listens.
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
