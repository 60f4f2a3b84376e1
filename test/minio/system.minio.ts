import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { lastingPorts as freePorts } from '../support/lasting-port.ts';
import { bothAt, Minio } from './minio.ts';

/** Those with one manager, which listens where MinIO sends its events to; of some only what has one. */
const FILES: readonly (readonly [file: string, ...options: string[]])[] = [
  ['buckets'],
  ['jobs/ends'],
  ['jobs/flows', '--test-name-pattern=a file that lands in a bucket'],
  ['jobs/forged-events'],
  ['jobs/invoke'],
  ['jobs/users'],
];

for (const [file, ...options] of FILES) {
  test(`the whole-system tests of ${file} pass with MinIO as the store`, { timeout: 180_000 }, async (t) => {
    const [port = 0] = await freePorts(1);
    const minio = await Minio.start({ hooks: bothAt(`http://127.0.0.1:${port}/system/events/storage`) });
    t.after(() => minio.stop());
    const { pid } = minio;
    const settings = { ...minio.settings, OSCAR_LISTEN: `127.0.0.1:${port}` };
    const child = spawn(process.execPath, [...options, new URL(`../${file}.test.ts`, import.meta.url).pathname], {
      env: { ...process.env, NODE_TEST_CONTEXT: '', OSCAR_TEST_SETTINGS: JSON.stringify(settings) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.after(() => child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text) => (output += text));
    const [code] = await once(child, 'close');
    assert.equal(code, 0, output);
    assert.match(output, /pass [1-9]/, 'tests were run');
    assert.deepEqual([minio.isRunning, minio.pid], [true, pid], 'MinIO was never restarted');
  });
}
