import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE, BOB } from '../../jobs/jobs.fixture.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { LogOptions, Runner } from '../../ports/index.ts';
import { ADMIN, by, CAROL, Incoming, type JobsServer, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';

const idsOf = (text: string) => Object.keys((JSON.parse(text) as { jobs: object }).jobs);
const seconds = (at: number | undefined) => new Date(at ?? 0).toISOString().replace(/\.\d+Z$/, 'Z');

describe('listing the jobs of a service the old way', () => {
  let server: JobsServer;
  before(async () => {
    server = await startJobsServer({ pageSize: 2 });
    await server.jobs.service('empty');
    await server.jobs.service('demo');
    await server.jobs.service('open', { visibility: 'public' });
  });
  after(() => server[Symbol.asyncDispose]());

  test('a service without jobs has an empty list, not none', async () => {
    const { status, headers, text } = await server.call('GET', '/system/logs/empty', { as: ADMIN });
    assert.deepEqual([status, text], [200, '{"jobs":{}}']);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
  });

  test('a job that has ended, one that runs, and one that was called and waited for', async () => {
    await using other = await startJobsServer();
    await other.jobs.service('demo');
    const ended = (await other.jobs.store.get(await other.ended('demo'))) as JobRecord;
    const running = (await other.jobs.store.get(await other.running('demo'))) as JobRecord;
    const leaving = new AbortController();
    const call = other.call('POST', '/run/demo', { as: TOKEN, body: 'x', signal: leaving.signal });
    const left = assert.rejects(call);
    await eventually(() => assert.equal(other.jobs.runner.attempts.size, 3));
    const { text } = await other.call('GET', '/system/logs/demo?page=', { as: ADMIN });
    leaving.abort();
    await left;
    const entries = [
      `"${ended.id}":{"status":"Succeeded","creation_time":"${seconds(ended.acceptedAt)}",` +
        `"start_time":"${seconds(ended.startedAt)}","finish_time":"${seconds(ended.finishedAt)}"}`,
      `"${running.id}":{"status":"Running","creation_time":"${seconds(running.acceptedAt)}",` +
        `"start_time":"${seconds(running.startedAt)}"}`,
    ];
    assert.equal(text, `{"jobs":{${entries.toSorted().join(',')}}}`);
  });

  test('pages follow each other to the last, and each job is on one of them', async () => {
    const made = [];
    for (let i = 0; i < 5; i++) made.push((await server.running('demo')).id);
    const found: string[] = [];
    let page = '';
    for (let pages = 1; ; pages++) {
      const { text } = await server.call('GET', `/system/logs/demo?page=${page}`, { as: ADMIN });
      assert.deepEqual(idsOf(text), idsOf(text).toSorted());
      found.push(...idsOf(text));
      const { next_page: next } = JSON.parse(text) as { next_page?: string };
      if (next === undefined) {
        assert.equal(pages, 3);
        break;
      }
      page = next;
    }
    assert.deepEqual(found.toSorted(), made.toSorted());
  });

  test('a page that is none is 400 with a sentence', async () => {
    const { status, text } = await server.call('GET', '/system/logs/demo?page=bogus', { as: ADMIN });
    assert.equal(status, 400);
    assert.match(text, /this page is not known/);
  });

  test('the administrator sees all jobs, a user those they caused or that have their rights', async () => {
    const byBob = await server.running('open', by(BOB));
    const byToken = await server.running('open', TOKEN);
    const seen = async (as: string) => idsOf((await server.call('GET', '/system/logs/open', { as })).text);
    assert.deepEqual(await seen(ADMIN), [byBob.id, byToken.id].toSorted());
    assert.deepEqual(await seen(by(BOB)), [byBob.id]);
    assert.deepEqual(await seen(by(ALICE)), [byToken.id]);
    assert.deepEqual(await seen(by(CAROL)), []);
  });

  test('job logs: 404 for users who do not see the service, 401 for its token and without credentials', async () => {
    for (const [as, path, status] of [
      [by(BOB), '/system/logs/demo', 404],
      [ADMIN, '/system/logs/nope', 404],
      [TOKEN, '/system/logs/demo', 401],
      ['', '/system/logs/demo', 401],
    ] as const) {
      const answer = await server.call('GET', path, { as });
      assert.deepEqual([answer.status, answer.text], [status, '']);
    }
  });

  test('a slash at the end is redirected', async () => {
    const { status, headers } = await server.call('GET', '/system/logs/demo/', { as: ADMIN });
    assert.deepEqual([status, headers.get('location')], [301, '/system/logs/demo']);
  });
});

describe('the log of a job', () => {
  let server: JobsServer;
  before(async () => {
    server = await startJobsServer();
    await server.jobs.service('demo');
    await server.jobs.service('open', { visibility: 'public' });
  });
  after(() => server[Symbol.asyncDispose]());

  test('is what its script printed, with times if asked', async () => {
    const { id } = await server.running('demo');
    server.print(id, 'hello');
    server.print(id, '<b>done</b>');
    const plain = await server.call('GET', `/system/logs/demo/${id}`, { as: ADMIN });
    assert.deepEqual([plain.status, plain.text], [200, 'hello\n<b>done</b>\n']);
    assert.equal(plain.headers.get('content-type'), 'text/plain; charset=utf-8');
    assert.equal(plain.headers.get('x-content-type-options'), 'nosniff');
    const timed = await server.call('GET', `/system/logs/demo/${id}?timestamps=true`, { as: by(ALICE) });
    assert.match(timed.text, /^\S+Z hello\n\S+Z <b>done<\/b>\n$/);
  });

  test('that is followed comes line by line and ends with the job', async () => {
    const { id } = await server.running('demo');
    const answer = await server.open('GET', `/system/logs/demo/${id}?follow=true`, { as: ADMIN });
    const incoming = new Incoming(answer);
    server.print(id, 'one');
    assert.equal(await incoming.until('one\n'), 'one\n');
    server.print(id, 'two');
    await incoming.until('two\n');
    server.jobs.runner.end(id);
    assert.equal(await incoming.toEnd(), 'one\ntwo\n');
  });

  test('can be followed before the job has begun', async () => {
    await using full = await startJobsServer({ cpu: 1000 });
    await full.jobs.service('demo');
    const first = await full.running('demo');
    const { headers } = await full.call('POST', '/job/demo', { as: TOKEN, body: 'x' });
    const id = headers.get('x-oscar-job-id') ?? '';
    full.print(id, 'at last');
    const incoming = new Incoming(await full.open('GET', `/system/logs/demo/${id}?follow=true`, { as: ADMIN }));
    full.jobs.runner.end(first.id);
    await incoming.until('at last\n');
  });

  test('of a job that waits is empty, and so it is when a job that never began has ended', async () => {
    await using full = await startJobsServer({ cpu: 0 });
    await full.jobs.service('demo');
    const { headers } = await full.call('POST', '/job/demo', { as: TOKEN, body: 'x' });
    const path = `/system/logs/demo/${headers.get('x-oscar-job-id')}`;
    assert.equal((await full.call('GET', path, { as: ADMIN })).text, '');
    const incoming = new Incoming(await full.open('GET', `${path}?follow=true`, { as: ADMIN }));
    await full.call('DELETE', path.replace('logs', 'jobs'), { as: ADMIN });
    assert.equal(await incoming.toEnd(), '');
  });

  test('that is followed ends when the manager stops, and does not hold it up', async () => {
    await using stopping = await startJobsServer();
    await stopping.jobs.service('demo');
    const { id } = await stopping.running('demo');
    const incoming = new Incoming(await stopping.open('GET', `/system/logs/demo/${id}?follow=1`, { as: ADMIN }));
    stopping.print(id, 'one');
    await incoming.until('one');
    await stopping.stop();
    assert.equal(await incoming.toEnd(), 'one\n');
  });

  test('job logs: reading stops when the client disconnects', async () => {
    const { id } = await server.running('demo');
    let signal: AbortSignal | undefined;
    const usual = (server.jobs.runner as Runner).logs.bind(server.jobs.runner);
    Object.assign(server.jobs.runner, {
      logs(name: string, options: LogOptions) {
        signal = options.signal;
        return usual(name, options);
      },
    });
    const incoming = new Incoming(await server.open('GET', `/system/logs/demo/${id}?follow=true`, { as: ADMIN }));
    server.print(id, 'one');
    await incoming.until('one');
    assert.equal(signal?.aborted, false);
    await incoming.leave();
    await eventually(() => assert.equal(signal?.aborted, true));
    Object.assign(server.jobs.runner, { logs: usual });
  });

  test('of a job that is not there, or not for this caller, is 404', async () => {
    const byBob = await server.running('open', by(BOB));
    for (const [as, path] of [
      [ADMIN, '/system/logs/demo/nope'],
      [ADMIN, `/system/logs/demo/${byBob.id}`],
      [ADMIN, '/system/logs/nope/nope'],
      [by(ALICE), `/system/logs/open/${byBob.id}`],
      [by(BOB), '/system/logs/demo/nope'],
    ] as const) {
      const { status, text } = await server.call('GET', path, { as });
      assert.deepEqual([status, text], [404, ''], path);
    }
    assert.equal((await server.call('GET', `/system/logs/open/${byBob.id}`, { as: by(BOB) })).status, 200);
  });
});

describe('deleting jobs', () => {
  const open = async () => {
    const server = await startJobsServer();
    await server.jobs.service('open', { visibility: 'public' });
    return server;
  };
  const left = async (server: JobsServer) => idsOf((await server.call('GET', '/system/logs/open', { as: ADMIN })).text);

  test('one job goes with its log, and is cancelled first if it runs', async () => {
    await using server = await open();
    const { id } = await server.running('open');
    const { status, text } = await server.call('DELETE', `/system/logs/open/${id}`, { as: by(ALICE) });
    assert.deepEqual([status, text], [204, '']);
    assert.equal((await server.call('GET', `/system/logs/open/${id}`, { as: ADMIN })).status, 404);
    assert.equal(server.jobs.runner.attempts.has(id), false);
    assert.equal((await server.call('DELETE', `/system/logs/open/${id}`, { as: by(ALICE) })).status, 404);
  });

  test('without all, those that ended well; an all that cannot be read is none', async () => {
    await using server = await open();
    const running = await server.running('open');
    await server.ended('open');
    assert.equal((await server.call('DELETE', '/system/logs/open?all=maybe', { as: ADMIN })).status, 204);
    assert.deepEqual(await left(server), [running.id]);
    assert.equal((await server.call('DELETE', '/system/logs/open?all=true', { as: ADMIN })).status, 204);
    assert.deepEqual(await left(server), []);
  });

  test('a guest deletes what they caused and nothing else; the owner deletes everything (S20)', async () => {
    await using server = await open();
    const byBob = await server.ended('open', by(BOB));
    const byToken = await server.ended('open');
    assert.equal((await server.call('DELETE', `/system/logs/open/${byToken.id}`, { as: by(BOB) })).status, 404);
    await server.call('DELETE', '/system/logs/open?all=true', { as: by(CAROL) });
    assert.deepEqual(await left(server), [byBob.id, byToken.id].toSorted());
    await server.call('DELETE', '/system/logs/open?all=true', { as: by(BOB) });
    assert.deepEqual(await left(server), [byToken.id]);
    await server.ended('open', by(BOB));
    await server.call('DELETE', '/system/logs/open?all=true', { as: by(ALICE) });
    assert.deepEqual(await left(server), []);
  });

  test('of a service that is not there, or not for this caller, is 404', async () => {
    await using server = await open();
    await server.jobs.service('demo');
    assert.equal((await server.call('DELETE', '/system/logs/nope', { as: ADMIN })).status, 404);
    assert.equal((await server.call('DELETE', '/system/logs/demo?all=true', { as: by(BOB) })).status, 404);
    assert.equal((await server.call('DELETE', '/system/logs/demo', { as: TOKEN })).status, 401);
  });
});
