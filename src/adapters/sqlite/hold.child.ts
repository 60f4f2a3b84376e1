import { writeSync } from 'node:fs';
import { openLocalCluster } from './index.ts';

/** Opens the data directory it is given, says so, and keeps it until it is killed. Run by tests. */
try {
  openLocalCluster({ directory: process.argv[2] ?? '' });
  writeSync(1, 'open\n');
  process.stdin.resume();
} catch (error) {
  writeSync(1, error instanceof Error ? `${error.message}\n` : 'it failed\n');
}
