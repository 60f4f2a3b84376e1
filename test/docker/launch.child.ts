import { appendFileSync } from 'node:fs';
import { createDockerLauncher } from '../../src/adapters/local-runner/docker/docker-launcher.ts';
import type { LaunchOrder } from '../../src/adapters/local-runner/launcher.ts';

/** A manager that launches a script and writes its output to a file. The test kills it. */
const [socket = '', instance = '', log = '', order = '{}'] = process.argv.slice(2);
const launcher = createDockerLauncher({ socket, instance, network: 'none' });
const print = (bytes: Uint8Array) => appendFileSync(log, bytes);
const run = await launcher.launch({ ...(JSON.parse(order) as Omit<LaunchOrder, 'print'>), print });
await run.ended;
