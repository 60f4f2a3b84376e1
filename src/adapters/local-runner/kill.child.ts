import { writeSync } from 'node:fs';
import { join } from 'node:path';
import { STORE } from '../../ports/conformance/runner-under-test.ts';
import { DirectoryStores } from './directory-staging.fixture.ts';
import { ATTEMPTS, makeAttempt, openKillSandbox } from './kill.schedule.ts';
import { createLocalRunner } from './local-runner.ts';
import { createProcessLauncher } from './process/process-launcher.ts';
import { ScriptStarter } from './process/starter.ts';

/** Runs the attempts of the schedule in the given directory, and prints what it observes, until it is killed. */
const [, , directory = '', isolated] = process.argv;
const staging = new DirectoryStores(join(directory, 'stores'));
const starting = new ScriptStarter();
// In the other half of the runs, all scripts start before the starter is ready.
if (Math.random() < 0.5) await starting.warm();
const launcher = createProcessLauncher({
  directory: join(directory, 'runner'),
  starter: starting,
  ...(isolated && { sandbox: await openKillSandbox(directory) }),
});
const runner = createLocalRunner({ directory: join(directory, 'runner'), staging, launcher });
const access = new Map([[STORE, staging.access]]);

await Promise.all(
  Array.from({ length: ATTEMPTS }, async (_, n) => {
    const attempt = makeAttempt(n, join(directory, 'said'), async () => access, Boolean(isolated));
    await runner.start(attempt);
    for await (const { phase } of runner.observe(attempt.name)) writeSync(1, `${attempt.name} ${phase}\n`);
  }),
);
writeSync(1, 'all ended\n');
process.stdin.resume();
