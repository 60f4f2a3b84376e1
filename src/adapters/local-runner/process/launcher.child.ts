import { writeSync } from 'node:fs';
import { createProcessLauncher } from './process-launcher.ts';

/** Launches the order in its argument (JSON), prints that it has, and waits to be killed. */
const { directory, uids, order } = JSON.parse(process.argv[2] ?? '');
const launcher = createProcessLauncher({ directory, uids });
await launcher.launch({ ...order, print: () => {} });
writeSync(1, 'launched\n');
process.stdin.resume();
