import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openSandbox } from './isolation.ts';
import { createProcessLauncher } from './process-launcher.ts';
import { launchFile } from './wrapper.ts';

/** Runs an attack as a manager that is not root, in the directory of its argument, and prints what came of it. */
const [, , place = ''] = process.argv;
const directory = join(place, 'runner');
const root = join(directory, 'attempts', 'a');
const at = (name: string) => join(root, name);
for (const name of ['input', 'output', 'state']) mkdirSync(at(name), { recursive: true });
writeFileSync(join(directory, 'key'), 'SECRET');
writeFileSync(
  at('script.sh'),
  `echo "$(id -u) $PPID"; grep CapEff /proc/self/status | cut -f 2
  cat ${directory}/key; echo "exit 0" >>${at('state/launch-1')} && echo FORGED
  echo x >${place}/x; kill -KILL 1; kill -KILL -1; (setsid sleep 600 &); exit 7`,
);
const sandbox = await openSandbox({ directory, userIds: false });
const launcher = createProcessLauncher({ directory, sandbox });
const printed: Uint8Array[] = [];
const run = await launcher.launch({
  name: 'a',
  image: '',
  directory: { root, script: at('script.sh'), input: at('input'), output: at('output'), state: at('state') },
  environment: {},
  demand: { cpu: 100, memory: 2 ** 28, gpu: 0 },
  print: (bytes) => void printed.push(bytes),
});
const { exitCode } = await run.ended;
const log = Buffer.concat(printed).toString();
const launch = readFileSync(launchFile(at('state'), 1), 'utf8');
process.stdout.write(JSON.stringify({ exitCode, log, launch, isolation: sandbox.isolation }));
await launcher.close();
