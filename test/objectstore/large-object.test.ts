import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { startServeProcess } from './serve-process.ts';
import { configFor, MANAGER } from './start-store.ts';

const MIB = 1024 * 1024;
const SIZE = 2048 * MIB;

/** The resident memory of a process on Linux. */
function residentMemory(pid: number | undefined): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1]) * 1024;
}

test('memory: an object of 2 GB is uploaded and downloaded in constant memory', {
  skip: process.env['OSCAR_TEST_LONG'] === undefined && 'only in long tests: set OSCAR_TEST_LONG',
  timeout: 600_000,
}, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-objects-large-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  await using server = await startServeProcess(directory);
  const client = new s3.S3Client(configFor(server.endpoint, MANAGER));
  const at = { Bucket: 'videos', Key: 'large' };
  await client.send(new s3.CreateBucketCommand({ Bucket: at.Bucket }));
  // From now on the threads and their code are loaded.
  await client.send(new s3.PutObjectCommand({ ...at, Body: randomBytes(4 * MIB) }));
  const before = residentMemory(server.child.pid);
  let highest = before;
  const watch = setInterval(() => {
    highest = Math.max(highest, residentMemory(server.child.pid));
  }, 50);
  t.after(() => clearInterval(watch));

  const block = randomBytes(MIB);
  const sent = createHash('sha256');
  const body = Readable.from(
    (function* () {
      for (let n = 0; n < SIZE / MIB; n++) {
        block.writeUInt32LE(n);
        const copy = Buffer.from(block);
        sent.update(copy);
        yield copy;
      }
    })(),
  );
  await client.send(new s3.PutObjectCommand({ ...at, Body: body, ContentLength: SIZE }));
  const received = createHash('sha256');
  const { Body } = await client.send(new s3.GetObjectCommand(at));
  assert.ok(Body instanceof Readable);
  for await (const chunk of Body) received.update(chunk);
  assert.equal(received.digest('hex'), sent.digest('hex'));
  const grown = (highest - before) / MIB;
  t.diagnostic(`the server grew by ${grown.toFixed(0)} MiB`);
  assert.ok(grown < 100, `the server grew by ${grown.toFixed(0)} MiB`);
  client.destroy();
});
