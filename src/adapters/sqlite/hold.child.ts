import { writeSync } from 'node:fs';
import { openLocalCluster } from './index.ts';

/** Opens the given data directory, prints `open`, and holds the directory until it is killed. */
try {
  const cluster = openLocalCluster({ directory: process.argv[2] ?? '' });
  writeSync(1, 'open\n');
  // The reference keeps the garbage collector from closing the lock.
  process.stdin.resume().on('end', () => void cluster.close());
} catch (error) {
  writeSync(1, error instanceof Error ? `${error.message}\n` : 'it failed\n');
}
