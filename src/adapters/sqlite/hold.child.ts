import { writeSync } from 'node:fs';
import { openLocalCluster } from './index.ts';

/** Opens the given data directory, prints `open`, and holds the directory until it is killed. */
try {
  openLocalCluster({ directory: process.argv[2] ?? '' });
  writeSync(1, 'open\n');
  process.stdin.resume();
} catch (error) {
  writeSync(1, error instanceof Error ? `${error.message}\n` : 'it failed\n');
}
