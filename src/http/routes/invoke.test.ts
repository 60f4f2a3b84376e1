import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { PassThrough, Readable } from 'node:stream';
import { after, before, describe, test } from 'node:test';
import { ALICE, BOB } from '../../jobs/jobs.fixture.ts';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { ADMIN, by, CAROL, Incoming, type JobsServer, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';

let server: JobsServer;
before(async () => {
  server = await startJobsServer();
  await server.jobs.service('demo');
  await server.jobs.service('open', { visibility: 'public' });
  await server.jobs.service('some', { visibility: 'restricted', allowed_users: [BOB] });
  await server.jobs.service('huge', { cpu: '1000' });
});
after(() => server[Symbol.asyncDispose]());

const keyOf = (service: string, headers: Headers): JobKey => ({ service, id: headers.get('x-oscar-job-id') ?? '' });

describe('/job', () => {
  test('keeps the event byte for byte, answers 201 with nothing in it, and names the job in two headers', async () => {
    const event = Uint8Array.from([0, 255, 10, 123, 34]);
    const { status, headers, text } = await server.call('POST', '/job/demo', { as: TOKEN, body: event });
    assert.deepEqual([status, text, headers.get('content-type')], [201, '', null]);
    const key = keyOf('demo', headers);
    assert.match(key.id, /^demo-[0-9a-f-]{36}$/);
    assert.equal(headers.get('location'), `/system/jobs/demo/${key.id}`);
    assert.deepEqual(await server.jobs.store.event(key), event);
  });

  test('the token of a service gives the job the rights of its owner', async () => {
    const { headers } = await server.call('POST', '/job/demo', { as: TOKEN, body: 'x' });
    const record = await server.jobs.store.get(keyOf('demo', headers));
    assert.deepEqual([record?.trigger, record?.principal, record?.invoker], ['job', ALICE, '']);
  });

  test('a user who may invoke the service gives the job their own', async () => {
    for (const [service, uid] of [
      ['demo', ALICE],
      ['open', CAROL],
      ['some', BOB],
    ] as const) {
      const { status, headers } = await server.call('POST', `/job/${service}`, { as: by(uid), body: 'x' });
      assert.equal(status, 201);
      const record = await server.jobs.store.get(keyOf(service, headers));
      assert.deepEqual([record?.principal, record?.invoker], [uid, uid]);
    }
  });

  test('another manager gives the job the id that it has there, and says who it is if it likes', async () => {
    for (const [id, from, kept] of [
      ['cow-1', 'go-cluster', 'go-cluster'],
      ['cow-2', 'no\tcluster', ''],
      ['cow-3', undefined, ''],
    ] as const) {
      const headers = { 'x-delegated-job-id': id, ...(from !== undefined && { 'x-delegated-from': from }) };
      const answer = await server.call('POST', '/job/demo', { as: TOKEN, body: 'x', headers });
      assert.deepEqual([answer.status, answer.headers.get('location')], [201, `/system/jobs/demo/${id}`]);
      assert.equal((await server.jobs.store.get({ service: 'demo', id }))?.delegatedFrom, kept);
    }
  });

  test('an id that is empty is none, and one that cannot be had is refused with a sentence', async () => {
    const call = (id: string, body = 'x') =>
      server.call('POST', '/job/demo', { as: TOKEN, body, headers: { 'x-delegated-job-id': id } });
    const empty = await call('');
    assert.equal(empty.status, 201);
    assert.match(empty.headers.get('x-oscar-job-id') ?? '', /^demo-[0-9a-f-]{36}$/);
    assert.equal((await server.jobs.store.get(keyOf('demo', empty.headers)))?.delegatedFrom, undefined);
    assert.equal((await call('cow-4')).status, 201);
    assert.equal((await call('cow-4')).status, 201);
    assert.equal((await call('cow-4', 'y')).status, 409);
    assert.equal((await call('COW')).status, 400);
  });

  test('an empty body is an event, and owner is not looked at', async () => {
    const { status, headers } = await server.call('POST', '/job/open?owner=nobody', { as: by(BOB) });
    assert.equal(status, 201);
    assert.equal((await server.jobs.store.event(keyOf('open', headers)))?.length, 0);
  });
});

for (const path of ['job', 'run']) {
  describe(`/${path} refuses`, () => {
    const cases: [string, string, string | undefined, number][] = [
      ['nobody', 'demo', undefined, 401],
      ['Basic credentials, right as they are', 'demo', ADMIN, 401],
      ['the token of another service', 'demo', `Bearer ${'0'.repeat(64)}`, 401],
      ['any token for a service that is not there', 'nope', TOKEN, 401],
      ['a bearer that is no token', 'demo', 'Bearer x', 401],
      ['a user who does not see the service', 'demo', by(BOB), 404],
      ['a user who is not on its list', 'some', by(CAROL), 404],
      ['a user, for a service that is not there', 'nope', by(ALICE), 404],
    ];
    for (const [who, service, as, expected] of cases) {
      test(`${who}: ${expected} without a body`, async () => {
        const answer = await server.call('POST', `/${path}/${service}`, { ...(as && { as }), body: 'x' });
        assert.deepEqual([answer.status, answer.text], [expected, '']);
        assert.equal(answer.headers.get('www-authenticate')?.startsWith('Basic') ?? false, false);
      });
    }

    test('a name that no service can have: 400 with a sentence', async () => {
      const answer = await server.call('POST', `/${path}/no%20name`, { as: TOKEN, body: 'x' });
      assert.equal(answer.status, 400);
      assert.match(answer.text, /service name in the path is invalid/);
    });

    test('an event that is too large, with or without its length said before: 413 with a sentence', async () => {
      const event = 'x'.repeat(server.jobs.maxEventBytes + 1);
      for (const body of [event, ReadableStream.from([Buffer.from(event)])]) {
        const answer = await server.call('POST', `/${path}/demo`, { as: TOKEN, body });
        assert.equal(answer.status, 413);
        assert.equal(answer.text, 'an event may have up to 1024 bytes: put the data into a bucket');
      }
    });

    test('a stranger before reading what they send', async () => {
      const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
      socket.write(`POST /${path}/demo HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nonly this`);
      const [head] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      assert.match(head.toString(), /^HTTP\/1\.1 401 /);
    });

    test('other methods, and redirects a slash at the end', async () => {
      const wrong = await server.call('GET', `/${path}/demo`, { as: TOKEN });
      assert.deepEqual([wrong.status, wrong.text], [404, '404 page not found']);
      const slash = await server.call('POST', `/${path}/demo/`, { as: TOKEN, body: 'x' });
      assert.deepEqual([slash.status, slash.headers.get('location')], [307, `/${path}/demo`]);
    });
  });
}

test('an event of exactly the largest size is taken', async () => {
  const { status } = await server.call('POST', '/job/demo', {
    as: TOKEN,
    body: 'x'.repeat(server.jobs.maxEventBytes),
  });
  assert.equal(status, 201);
});

/** The name of the attempt whose caller waits, as soon as there is one. */
function started(on: JobsServer): Promise<string> {
  return eventually(() => {
    const found = [...on.jobs.runner.attempts].find(
      ([, { attempt, seen }]) => attempt.answer && seen.phase === 'running',
    );
    assert.ok(found);
    return found[0];
  });
}

describe('/run', () => {
  test('answers with what the script has made, as text, and names the job', async () => {
    const call = server.call('POST', '/run/demo', { as: TOKEN, body: 'aGk=' });
    const name = await started(server);
    server.jobs.runner.end(name);
    const { status, headers, text } = await call;
    assert.deepEqual([status, text], [200, `answer of ${name}`]);
    assert.equal(headers.get('content-type'), 'text/plain; charset=utf-8');
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    assert.equal(headers.get('x-oscar-job-id'), name);
    assert.equal(headers.get('x-oscar-exit-code'), '0');
    assert.equal((await server.jobs.store.get({ service: 'demo', id: name }))?.trigger, 'run');
  });

  test('hands on what is there of an answer before the rest has come', async (t) => {
    const usual = server.jobs.runner.answer.bind(server.jobs.runner);
    t.after(() => Object.assign(server.jobs.runner, { answer: usual }));
    const parts = new PassThrough();
    Object.assign(server.jobs.runner, { answer: async () => Readable.from(parts) });
    const call = server.open('POST', '/run/demo', { as: TOKEN, body: 'x' });
    server.jobs.runner.end(await started(server));
    parts.write('one ');
    const incoming = new Incoming(await call);
    await incoming.until('one ');
    parts.end('two');
    assert.equal(await incoming.toEnd(), 'one two');
  });

  test('a script that failed is 500 with what it printed and its exit code', async () => {
    const call = server.call('POST', '/run/demo', { as: by(ALICE), body: 'x' });
    const name = await started(server);
    server.jobs.runner.end(name, { outcome: 'failed', reason: 'ScriptFailed', message: 'exit code 3', exitCode: 3 });
    const { status, headers, text } = await call;
    assert.deepEqual([status, headers.get('x-oscar-exit-code')], [500, '3']);
    assert.equal(text, `answer of ${name}`);
  });

  test('a job that failed for another reason is 502 with that reason, and its job can be looked at', async () => {
    const call = server.call('POST', '/run/demo', { as: TOKEN, body: 'x' });
    const name = await started(server);
    server.jobs.runner.end(name, { outcome: 'failed', reason: 'ImageFailed', message: 'there is no such image' });
    const { status, headers, text } = await call;
    assert.deepEqual([status, text], [502, 'the service did not answer: there is no such image']);
    assert.equal(headers.get('x-oscar-job-id'), name);
  });

  test('a service that no node has room for is 503 at once', async () => {
    const { status, text } = await server.call('POST', '/run/huge', { as: TOKEN, body: 'x' });
    assert.deepEqual([status, text], [503, 'it needs 1000000 and there are 100000']);
  });

  test('a caller who leaves ends the script', async () => {
    const leaving = new AbortController();
    const call = server.call('POST', '/run/demo', { as: TOKEN, body: 'x', signal: leaving.signal });
    const refused = assert.rejects(call, { name: 'AbortError' });
    const name = await started(server);
    leaving.abort();
    await refused;
    const record = await server.jobs.until({ service: 'demo', id: name }, 'cancelled');
    assert.equal(record.message, 'the caller did not wait for the answer');
    assert.equal(server.jobs.runner.attempts.get(name)?.stopped, 'caller-left');
  });

  test('what takes too long is 504, and its script is ended', async () => {
    await using slow = await startJobsServer({ runTimeoutMs: 300 });
    await slow.jobs.service('demo');
    const { status, headers, text } = await slow.call('POST', '/run/demo', { as: TOKEN, body: 'x' });
    assert.equal(status, 504);
    assert.match(text, /no answer within 0\.3 seconds/);
    await slow.jobs.until(keyOf('demo', headers), 'cancelled');
  });
});
