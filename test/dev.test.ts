import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, utimesSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { eventually } from './support/jobs.ts';
import { call, PASSWORD, temporaryDirectory } from './support/manager.ts';

const root = join(import.meta.dirname, '..');

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  test(`npm run dev: the manager restarts when a file of src changes, and ${signal} stops it`, async (t) => {
    const directory = temporaryDirectory();
    t.after(() => rmSync(directory, { recursive: true, force: true }));
    const env = {
      PATH: [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter),
      HOME: process.env['HOME'],
      OSCAR_DATA_DIR: directory,
      OSCAR_LISTEN: '127.0.0.1:0',
      OSCAR_STORE_PORT: '0',
      OSCAR_LOCAL_RUNTIME: 'process',
      OSCAR_DISK_FLOOR: '0',
      OSCAR_PASSWORD: PASSWORD,
    };
    const npm = spawn('npm', ['run', '--silent', 'dev'], { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [npm.stdout, npm.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
    // Only after every process has ended that writes there: npm, the watcher, the manager and its workers.
    const closed = once(npm, 'close');
    t.after(async () => {
      npm.kill('SIGTERM');
      await closed;
    });
    const starts = () => [...output.matchAll(/"address":"([^"]+)","msg":"manager is up"/g)];
    const started = (times: number) => eventually(() => assert.ok(starts().length >= times, output));

    await started(1);
    const now = new Date();
    utimesSync(join(root, 'src/main.ts'), now, now);
    await started(2);
    assert.equal((await call(starts().at(-1)?.[1] ?? '', 'GET', '/health')).status, 200);

    npm.kill(signal);
    await closed;
    assert.equal(output.match(/"msg":"stopped"/g)?.length, starts().length, output);
  });
}
