import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../../lib/secret.ts';
import { STAGING_BUCKET, type StoreKeys } from '../../../ports/index.ts';
import { openObjectStore } from '../../../s3-server/index.ts';
import { S3Api } from './s3-api.ts';
import { SignedHttpClient, StoreResponseError } from './signed-http-client.ts';
import { ensureStagingBucket } from './staging-bucket.ts';
import { StoreLocks } from './store-locks.ts';

const KEYS = { accessKey: new Secret('operator'), secretKey: new Secret('operator-secret') };
const MINUTE = 60_000;

/** A store whose clock is ahead as the test says, and what several managers have for locks there. */
async function scene(t: TestContext) {
  const directory = mkdtempSync(join(tmpdir(), 'oscar-locks-'));
  const clock = { ahead: 0 };
  const server = openObjectStore({
    directory,
    region: 'us-east-1',
    manager: { accessKey: KEYS.accessKey.reveal(), secret: KEYS.secretKey },
    seal: { seal: (text) => Buffer.from(text), open: (bytes) => Buffer.from(bytes).toString() },
    now: () => Date.now() + clock.ahead,
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  const requests = new SignedHttpClient({ endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', verify: true });
  t.after(async () => {
    requests.close();
    await server.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const account = { withKeys: <T>(work: (keys: StoreKeys) => Promise<T>) => work(KEYS) };
  const s3 = new S3Api({ requests, account, staging: STAGING_BUCKET });
  await ensureStagingBucket(s3);
  const reported: string[] = [];
  const report = (_problem: unknown, what: string) => void reported.push(what);
  return { clock, s3, reported, locks: () => new StoreLocks(s3, async () => undefined, { report }) };
}

const AT = { bucket: STAGING_BUCKET, key: 'thing' };
const content = async (s3: S3Api) => (await s3.read(AT, 100))?.body.toString();

test('store locks: a write within the lease is accepted, also under a nested lock', async (t) => {
  const { s3, locks, reported } = await scene(t);
  const one = locks();
  await one.withLock('outer', () => one.withLock('inner', () => s3.put(AT, 'mine')));
  assert.equal(await content(s3), 'mine');
  assert.deepEqual([await one.isHeld('outer'), await one.isHeld('inner')], [false, false]);
  assert.deepEqual(reported, []);
});

test('store locks: the store rejects a write after the lease, whatever the clock of the holder', async (t) => {
  const { s3, locks, clock, reported } = await scene(t);
  const one = locks();
  const late = one.withLock('policy/alice', async () => {
    assert.equal(await content(s3), undefined);
    clock.ahead += 2 * MINUTE;
    assert.equal(await content(s3), undefined, 'reads are allowed');
    await s3.put(AT, 'late');
  });
  await assert.rejects(late, { code: 'unavailable', message: /took too long to change "policy\/alice".*try again/ });
  assert.equal(await content(s3), undefined);
  assert.equal(await one.isHeld('policy/alice'), true, 'another manager may hold it by now');
  assert.deepEqual(reported, []);
});

test('store locks: a nested lock ends with the outer lease', async (t) => {
  const { s3, locks, clock } = await scene(t);
  const one = locks();
  const late = one.withLock('outer', async () => {
    clock.ahead += 2 * MINUTE;
    await one.withLock('inner', () => s3.put(AT, 'late'));
  });
  await assert.rejects(late, { code: 'unavailable' });
  assert.equal(await content(s3), undefined);
});

test('store locks: a lock that cannot be released is reported', async (t) => {
  const { s3, locks, reported } = await scene(t);
  const one = locks();
  await one.withLock('thing', async () => {
    await s3.remove({ bucket: STAGING_BUCKET, key: 'thing' });
    s3.remove = () => Promise.reject(new Error('no disk'));
  });
  assert.deepEqual(reported, ['a lock of the object store was not released: changes of "thing" wait for a minute']);
});

/** What fails before it is done. Resolves to the note that it found. */
async function failed(one: StoreLocks, ...notes: string[]): Promise<string | undefined> {
  let left: string | undefined;
  const work = one.withLock('bucket/b', async (held) => {
    left = held.unfinished;
    for (const note of notes) await held.setNote(note);
    throw new Error('it died here');
  });
  await assert.rejects(work, /it died here/);
  return left;
}

/** From now on the store says of every claim that it is old. */
function age(s3: S3Api): void {
  const read = s3.read.bind(s3);
  s3.read = async (...asked) => {
    const found = await read(...asked);
    const since = Date.parse(found?.headers['last-modified'] ?? '');
    return found && { ...found, headers: { ...found.headers, date: new Date(since + 2 * MINUTE).toUTCString() } };
  };
}

test('store locks: a note stays until the work is done, however many holders die', async (t) => {
  const { s3, locks } = await scene(t);
  await failed(locks(), 'half');
  age(s3);
  for (let i = 0; i < 2; i++) {
    assert.equal(await failed(locks()), 'half');
    assert.equal(await locks().isHeld('bucket/b'), true);
  }
  assert.equal(await locks().withLock('bucket/b', async ({ unfinished: left }) => left), 'half');
  assert.equal(await locks().isHeld('bucket/b'), false);
});

test('store locks: a note is found even if the response to acquiring the lock is lost', async (t) => {
  const { s3, locks } = await scene(t);
  await failed(locks(), 'half');
  age(s3);
  const send = s3.send.bind(s3);
  let lost = false;
  s3.send = async (request) => {
    const answer = await send(request);
    if (lost || !request.headers?.['if-match']) return answer;
    lost = true;
    // The answer was lost. The retry is rejected, because the claim has changed since it was read.
    throw new StoreResponseError(412, 'PreconditionFailed', 'PUT');
  };
  assert.equal(await locks().withLock('bucket/b', async ({ unfinished: left }) => left), 'half');
  assert.ok(lost);
});

test('store locks: a holder that fails after it has cleared its note releases the lock', async (t) => {
  const { locks } = await scene(t);
  await failed(locks(), 'half', '');
  assert.equal(await locks().isHeld('bucket/b'), false);
});
