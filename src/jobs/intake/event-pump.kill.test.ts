import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { openScene } from './intake.fixture.ts';

/** Uploads that must be acknowledged before it is enough. */
const UPLOADS = Number(process.env['OSCAR_TEST_UPLOADS'] ?? 200);

/** Uploads at the same time. */
const WRITERS = 8;

/** A process is killed after at most so many acknowledged uploads. */
const MOST_BEFORE_KILL = 60;

const CHILD = fileURLToPath(new URL('./event-pump.child.ts', import.meta.url));

test('event pump: every acknowledged object has exactly one job, whenever the process is killed', {
  timeout: 60_000 + UPLOADS * 500,
}, async (t) => {
  const first = openScene();
  const { directory } = first;
  const service = await first.addService('demo', 'demo/in');
  await first.close({ keep: true });

  const acknowledged = new Set<string>();
  let rounds = 0;
  while (acknowledged.size < UPLOADS) await uploadUntilKilled(directory, rounds++, acknowledged);

  await using last = openScene(directory);
  const waited = (await last.source.backlog()).events;
  const made = (await last.ran(service)).length;
  t.diagnostic(`${rounds} processes were killed; ${made} jobs made by them, ${waited} events left to the last`);
  await last.deliver();
  const ran = await last.ran(service);
  const missing = [...acknowledged].filter((key) => !ran.includes(key));
  assert.deepEqual(missing, [], 'acknowledged, and no job');
  const objects = await last.objects.objects('demo', { prefix: 'in/', limit: 1_000_000 });
  const keys = objects.items.map(({ key }) => key).filter((key) => key !== 'in/');
  assert.deepEqual(ran, keys.toSorted(), 'one job for each object');
  assert.ok(made > 0, 'the killed ones have made jobs too');
});

/** Starts a process, uploads to it, and kills it in the middle. */
async function uploadUntilKilled(directory: string, round: number, acknowledged: Set<string>): Promise<void> {
  const child = spawn(process.execPath, [CHILD, directory], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  const [port] = await Promise.race([
    once(createInterface({ input: child.stdout }), 'line') as Promise<[string]>,
    exited.then(() => Promise.reject(new Error('the store did not start'))),
  ]);
  const client = new S3Client({
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: 'oscar', secretAccessKey: 'manager-secret' },
    // Another try of the same upload would be another object.
    maxAttempts: 1,
  });
  let left = randomInt(1, MOST_BEFORE_KILL);
  let dead = false;
  const upload = async (writer: number) => {
    for (let n = 0; !dead; n++) {
      const Key = `in/${round}/${writer}/${n}`;
      try {
        await client.send(new PutObjectCommand({ Bucket: 'demo', Key, Body: Key }));
      } catch (error) {
        if (!dead) throw error;
        return;
      }
      acknowledged.add(Key);
      left--;
      if (left === 0) {
        dead = true;
        child.kill('SIGKILL');
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: WRITERS }, (_, writer) => upload(writer)));
  } finally {
    child.kill('SIGKILL');
    await exited;
    client.destroy();
  }
}
