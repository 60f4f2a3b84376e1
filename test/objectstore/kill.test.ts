import assert from 'node:assert/strict';
import { createHash, randomInt } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as s3 from '@aws-sdk/client-s3';
import { eventually } from '../../src/ports/conformance/eventually.ts';
import type { ObjectStoreServer } from '../../src/s3-server/index.ts';
import { startServeProcess } from './serve-process.ts';
import { configFor, MANAGER, startStore } from './start-store.ts';

/** The number of acknowledged uploads after which the test ends. */
const UPLOADS = Number(process.env['OSCAR_TEST_UPLOADS'] ?? 200);

/** Concurrent uploads. */
const WRITERS = 8;

/** The process is killed after at most this many acknowledged uploads. */
const MOST_BEFORE_KILL = 60;

const SIZES = [0, 10, 4096, 16_384, 16_385, 100_000, 700_000];

const bucket = 'photos';

/** The content is derived from the key, so the test need not store it. */
function contentOf(key: string): Buffer {
  const size = SIZES[createHash('md5').update(key).digest().readUInt8(0) % SIZES.length] ?? 0;
  return size === 0 ? Buffer.alloc(0) : createHash('shake256', { outputLength: size }).update(key).digest();
}

test('crash: every acknowledged upload is complete and has exactly one event, whenever the process is killed', {
  timeout: 60_000 + UPLOADS * 500,
}, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-objects-kill-'));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  {
    await using store = await startStore({ directory });
    await store.store.createBucket({ name: bucket, owner: MANAGER.accessKey });
    await store.store.putRule(bucket, { id: 'all', prefix: 'in/' });
  }
  const acknowledged = new Set<string>();
  let rounds = 0;
  while (acknowledged.size < UPLOADS) await uploadUntilKilled(directory, rounds++, acknowledged);
  t.diagnostic(`${acknowledged.size} uploads acknowledged by ${rounds} processes, each killed`);

  await using last = await startStore({ directory });
  const found = allObjects(last.store);
  const missing = [...acknowledged].filter((key) => !found.has(key));
  assert.deepEqual(missing, [], 'acknowledged and gone');
  for (const key of found.keys()) {
    const content = await last.store.readObject({ bucket, key }).stream.toArray();
    assert.ok(contentOf(key).equals(Buffer.concat(content)), `${key} is not what was put`);
  }
  const events = last.store.takeEvents(1_000_000).map(({ key }) => key);
  assert.deepEqual(events.toSorted(), [...found.keys()].toSorted(), 'one event for each object');
  const bytes = [...found.values()].reduce((sum, size) => sum + size, 0);
  assert.deepEqual(last.store.describeBucket(bucket)?.usage, { objects: found.size, bytes });
  await abortAll(last.client(MANAGER));
  const files = [...found.keys()].reduce((sum, key) => sum + filesOf(key), 0);
  await eventually(() => assert.equal(filesIn(directory), files, 'files that belong to nothing, or too few'));
});

const isInParts = (n: number) => n % 5 === 4;

/** Starts a process, uploads to it, and kills it in the middle. */
async function uploadUntilKilled(directory: string, round: number, acknowledged: Set<string>): Promise<void> {
  await using server = await startServeProcess(directory, { partBytes: '1' });
  // No retries: a repeated upload would be another event.
  const client = new s3.S3Client({ ...configFor(server.endpoint, MANAGER), maxAttempts: 1 });
  let left = randomInt(1, MOST_BEFORE_KILL);
  let dead = false;
  const upload = async (writer: number) => {
    for (let n = 0; !dead; n++) {
      const key = `in/${round}/${writer}/${n}`;
      try {
        await (isInParts(n) ? putInParts(client, key) : put(client, key));
      } catch (error) {
        if (!dead) throw error;
        return;
      }
      acknowledged.add(key);
      left--;
      if (left === 0) {
        dead = true;
        await server.kill();
      }
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, (_, writer) => upload(writer)));
  client.destroy();
}

const put = (client: s3.S3Client, Key: string) =>
  client.send(new s3.PutObjectCommand({ Bucket: bucket, Key, Body: contentOf(Key) }));

async function putInParts(client: s3.S3Client, Key: string): Promise<void> {
  const at = { Bucket: bucket, Key };
  const content = contentOf(Key);
  const half = Math.floor(content.length / 2);
  const { UploadId } = await client.send(new s3.CreateMultipartUploadCommand(at));
  const bodies = half > 0 ? [content.subarray(0, half), content.subarray(half)] : [content];
  const Parts = await Promise.all(
    bodies.map(async (Body, i) => {
      const part = new s3.UploadPartCommand({ ...at, UploadId, PartNumber: i + 1, Body });
      return { PartNumber: i + 1, ETag: (await client.send(part)).ETag };
    }),
  );
  await client.send(new s3.CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts } }));
}

function allObjects(store: ObjectStoreServer): Map<string, number> {
  const found = new Map<string, number>();
  let after: string | undefined = '';
  while (after !== undefined) {
    const page = store.listObjects(bucket, { after, limit: 1000 });
    for (const { key, size } of page.objects) found.set(key, size);
    after = page.next;
  }
  return found;
}

const filesIn = (directory: string) =>
  readdirSync(join(directory, 'content'), { recursive: true, withFileTypes: true }).filter((each) => each.isFile())
    .length;

/** An object has one file if it is not inline; an object made of parts has one file for each part. */
function filesOf(key: string): number {
  const { length } = contentOf(key);
  if (!isInParts(Number(key.split('/').at(-1)))) return length > 16_384 ? 1 : 0;
  return length > 1 ? 2 : 1;
}

async function abortAll(client: s3.S3Client): Promise<void> {
  const { Uploads = [] } = await client.send(new s3.ListMultipartUploadsCommand({ Bucket: bucket }));
  for (const { Key, UploadId } of Uploads) {
    await client.send(new s3.AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId }));
  }
}
