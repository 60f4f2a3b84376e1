import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const LAUNCHER = fileURLToPath(new URL('../../bin/oscar.js', import.meta.url));

/** Prints the URL of each module that is loaded, as it is loaded. */
const REPORT = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  import { writeSync } from 'node:fs';
  registerHooks({ load(url, context, next) { writeSync(2, url + '\\n'); return next(url, context); } });
`)}`;

test('start: a command loads no package that only other commands need', async () => {
  const { stderr } = await promisify(execFile)(process.execPath, ['--import', REPORT, LAUNCHER, '--help']);
  const packages = stderr.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/]+)\//g);
  // Each of them takes longer to load than the command itself takes to run.
  assert.deepEqual(new Set([...packages].map(([, name]) => name)), new Set(['commander', 'yaml']));
});
