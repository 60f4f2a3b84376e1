import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { ALICE } from '../support/issuer-users.ts';
import { Meeting, Outside, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';

const { issuer, alice, settings } = await startPeople();
let manager: TestManager;
let outside: Outside;
before(async () => {
  manager = await startTestManager(settings);
  outside = new Outside(manager.url);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
});

const alone = { input: [], output: [] };
const run = (as: string, name: string, body?: unknown) => outside.call('POST', `/run/${name}`, { as, body });
const decoded = (text: string) => Buffer.from(text, 'base64').toString();
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');

describe('/job', () => {
  const script = 'cat "$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/$JOB_UUID"; echo "event=$EVENT"';
  let token: string;
  before(async () => {
    token = await outside.create(alice, service('called', script));
  });

  test('accepts the login of a user and the token of the service, and returns the id of the job', async () => {
    for (const [as, invoker] of [
      [alice, ALICE.sub],
      [token, undefined],
    ] as const) {
      const { status, headers, text } = await outside.call('POST', '/job/called', { as, body: '{"some": "event"}' });
      assert.deepEqual([status, text], [201, '']);
      const id = headers.get('x-oscar-job-id') ?? '';
      assert.equal(headers.get('location'), `/system/jobs/called/${id}`);
      const job = await outside.ended('called', id);
      assert.deepEqual([job.state, job.trigger, job.invoker], ['succeeded', 'job', invoker]);
      assert.equal(await outside.get(alice, `called/out/${id}`), '{"some": "event"}');
      assert.match(await outside.log('called', id), /^event=\{"some": "event"\}$/m);
    }
  });

  const bodies: [string, Uint8Array | string, Uint8Array | string][] = [
    ['nothing', '', ''],
    ['base64', Buffer.from('a file').toString('base64'), 'a file'],
    ['neither base64 nor JSON', 'hello %% world', 'hello %% world'],
    ['bytes that are no text', Uint8Array.from([0, 255, 10, 0, 13]), Uint8Array.from([0, 255, 10, 0, 13])],
    ['a JSON text that only looks like an event', '{"Records":[{"eventSource":7}]}', '{"Records":[{"eventSource":7}]}'],
  ];
  for (const [name, sent, expected] of bodies) {
    test(`${name} becomes the input file`, async () => {
      const id = await outside.submit(token, 'called', sent);
      assert.equal((await outside.ended('called', id)).state, 'succeeded');
      assert.equal(
        sha256((await outside.get(alice, `called/out/${id}`)) ?? 'none'),
        sha256(Buffer.from(expected).toString()),
      );
    });
  }

  test('a missing service is 404 for a user and 401 for a token; a request without credentials is 401', async () => {
    const post = async (as: string | undefined) =>
      (await outside.call('POST', '/job/nope', { ...(as !== undefined && { as }), body: 'x' })).status;
    assert.deepEqual([await post(alice), await post(token), await post(undefined)], [404, 401, 401]);
    const other = await outside.call('POST', '/job/called', { as: `Bearer ${'0'.repeat(64)}`, body: 'x' });
    assert.equal(other.status, 401);
    assert.equal((await outside.call('POST', '/job/called', { as: ADMIN, body: 'x' })).status, 401);
  });

  test('9 MB is too much: 413 with a sentence, and no job', async () => {
    await outside.create(alice, service('small', 'true'));
    for (const path of ['/job/small', '/run/small']) {
      const { status, text } = await outside.call('POST', path, { as: alice, body: new Uint8Array(9_000_000) });
      assert.equal(status, 413);
      assert.match(text, /put the data into a bucket/);
    }
    assert.deepEqual(await outside.jobs(ADMIN, 'small'), []);
  });
});

describe('/run', () => {
  test('answers with the single output file', async () => {
    const token = await outside.create(
      alice,
      service('one', 'tr a-z A-Z <"$INPUT_FILE_PATH" >"$TMP_OUTPUT_DIR/x"', alone),
    );
    for (const as of [alice, token]) {
      const { status, headers, text } = await run(as, 'one', 'hello sync');
      assert.deepEqual([status, decoded(text)], [200, 'HELLO SYNC']);
      assert.match(headers.get('x-oscar-job-id') ?? '', /^one-/);
    }
  });

  test('answers with a zip archive of several output files', async () => {
    await outside.create(alice, service('several', 'cd "$TMP_OUTPUT_DIR"; mkdir d; echo 1 >a; echo 2 >d/b', alone));
    const { status, text } = await run(alice, 'several', 'x');
    const zip = Buffer.from(text, 'base64');
    assert.equal(status, 200);
    assert.deepEqual([...zip.subarray(0, 4)], [0x50, 0x4b, 3, 4]);
    for (const name of ['a', 'd/b']) assert.ok(zip.includes(name), name);
  });

  test('answers with the log if there is no output file', async () => {
    await outside.create(alice, service('prints', 'echo one; echo two >&2', alone));
    const { status, text } = await run(alice, 'prints', 'x');
    assert.deepEqual([status, text], [200, 'one\ntwo\n']);
  });

  test('answers 500 with the log if the script fails, without its output files', async () => {
    await outside.create(alice, service('broken', 'echo oh no; echo x >"$TMP_OUTPUT_DIR/x"; exit 4'));
    const { status, headers, text } = await run(alice, 'broken', 'x');
    assert.deepEqual([status, text, headers.get('x-oscar-exit-code')], [500, 'oh no\n', '4']);
    assert.deepEqual(await outside.keys(alice, 'broken'), []);
  });

  test('writes to the outputs of the service too', async () => {
    await outside.create(alice, service('also', 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR/x"'));
    assert.equal(decoded((await run(alice, 'also', 'hello world')).text), 'hello world');
    assert.equal(await outside.get(alice, 'also/out/x'), 'hello world');
  });

  test('brings an event of 1 MB to the script byte by byte, and not in its environment', async () => {
    const script = 'sha256sum <"$INPUT_FILE_PATH"; echo "${EVENT-none}"';
    await outside.create(alice, service('large', script, alone));
    const bytes = randomBytes(2 ** 20);
    const { status, text } = await run(alice, 'large', new Uint8Array(bytes));
    assert.deepEqual([status, text], [200, `${sha256(bytes)}  -\nnone\n`]);
    const json = JSON.stringify({ text: bytes.toString('base64') });
    assert.equal((await run(alice, 'large', json)).text, `${sha256(json)}  -\nnone\n`);
  });

  test('is cancelled when the caller disconnects, with the reason in the record', async () => {
    using meeting = new Meeting();
    await outside.create(alice, service('left', `${meeting.say('begun', 'yes')}; ${meeting.wait('never')}`, alone));
    const leaving = new AbortController();
    const call = fetch(`${manager.url}/run/left`, {
      method: 'POST',
      headers: { authorization: alice },
      body: 'x',
      signal: leaving.signal,
    });
    await meeting.heard('begun');
    leaving.abort();
    await assert.rejects(call);
    const job = await outside.onlyJob('left');
    assert.deepEqual([job.state, job.message], ['cancelled', 'the caller did not wait for the answer']);
  });
});
