#!/usr/bin/env node
// Plain JavaScript, because loading even one TypeScript file brings in Node's type stripper, some 30 MB. With the cache
// that this turns on, only the first run needs it: the stripped and compiled code is kept. What is in the cache gets
// executed, so it lies with the packages, where nobody writes who could not change the code itself.
import { spawn } from 'node:child_process';
import * as modules from 'node:module';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

if (Number.parseInt(process.versions.node, 10) >= 24) {
  modules.enableCompileCache(here('../node_modules/.cache/oscar-manager'));
  await import('../src/main.ts');
} else {
  // Started by the Node of the machine, which is too old: the packages bring their own. The channel carries no message:
  // it closes with this process, so that the child notices also when this one is killed.
  const child = spawn(here('../node_modules/node/bin/node'), process.argv.slice(1), {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  child.on('error', (error) => {
    process.stderr.write(`oscar needs Node 24, which npm ci brings: ${error.message}\n`);
    process.exitCode = 1;
  });
  // What is sent to this process alone is passed on. A terminal sends Ctrl-C to both: the child then has two, and takes
  // them for one.
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  const passOn = (signal) => child.kill(signal);
  for (const signal of signals) process.on(signal, passOn);
  child.on('exit', (code, signal) => {
    for (const each of signals) process.off(each, passOn);
    if (signal) process.kill(process.pid, signal);
    else process.exit(code ?? 1);
  });
}
