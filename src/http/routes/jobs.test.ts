import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE, BOB } from '../../jobs/jobs.fixture.ts';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { ADMIN, by, CAROL, type JobsServer, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';

interface Listed {
  readonly jobs: { readonly id: string; readonly state: string; readonly invoker?: string }[];
  readonly gone?: string[];
  readonly next_page?: string;
  readonly cursor: string;
}

let server: JobsServer;
before(async () => {
  server = await startJobsServer({ pageSize: 2 });
  await server.jobs.service('open', { visibility: 'public' });
});
after(() => server[Symbol.asyncDispose]());

async function list(path: string, as = ADMIN, on = server): Promise<Listed> {
  const { status, text } = await on.call('GET', `/system/jobs/${path}`, { as });
  assert.equal(status, 200, text);
  return JSON.parse(text) as Listed;
}

const ids = ({ jobs }: Listed) => jobs.map(({ id }) => id);

describe('one job', () => {
  test('is shown with its whole life', async () => {
    const { id } = await server.ended('open', by(BOB));
    const { status, headers, text } = await server.call('GET', `/system/jobs/open/${id}`, { as: by(BOB) });
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json; charset=utf-8');
    const job = JSON.parse(text) as Record<string, unknown>;
    assert.deepEqual(Object.keys(job), [
      'id',
      'service',
      'state',
      'phase',
      'message',
      'trigger',
      'invoker',
      'place',
      'accepted_at',
      'started_at',
      'finished_at',
      'exit_code',
      'attempts',
      'decisions',
      'timeline',
    ]);
    assert.deepEqual(
      [job['state'], job['phase'], job['exit_code'], job['invoker']],
      ['succeeded', 'Succeeded', 0, BOB],
    );
    assert.deepEqual(
      (job['timeline'] as { state: string }[]).map(({ state }) => state),
      ['accepted', 'queued', 'running', 'succeeded'],
    );
  });

  test('that is not there, or not for this caller, is 404; a slash at its end is redirected', async () => {
    const { id } = await server.running('open', by(BOB));
    for (const [as, path, status] of [
      [ADMIN, '/system/jobs/open/nope', 404],
      [by(CAROL), `/system/jobs/open/${id}`, 404],
      [by(ALICE), `/system/jobs/open/${id}`, 404],
      [TOKEN, `/system/jobs/open/${id}`, 401],
      [ADMIN, '/system/jobs/open/', 301],
      [ADMIN, `/system/jobs/open/${id}/`, 301],
    ] as const) {
      assert.equal((await server.call('GET', path, { as })).status, status, path);
    }
  });

  test('is cancelled: 202, then 409 with a sentence', async () => {
    const key = await server.running('open', by(BOB));
    const path = `/system/jobs/open/${key.id}`;
    assert.equal((await server.call('DELETE', path, { as: by(CAROL) })).status, 404);
    const { status, text } = await server.call('DELETE', path, { as: by(BOB) });
    assert.deepEqual([status, text], [202, '']);
    await server.jobs.until(key, 'cancelled');
    const again = await server.call('DELETE', path, { as: by(BOB) });
    assert.equal(again.status, 409);
    assert.match(again.text, /has ended already: it is cancelled/);
  });

  test('of another is cancelled by the owner of the service', async () => {
    const key = await server.running('open', by(BOB));
    assert.equal((await server.call('DELETE', `/system/jobs/open/${key.id}`, { as: by(ALICE) })).status, 202);
    await server.jobs.until(key, 'cancelled');
  });
});

describe('a list of jobs', () => {
  test('is newest first, in pages, and can be of some states only', async () => {
    await using other = await startJobsServer({ pageSize: 2 });
    await other.jobs.service('demo');
    const made = [await other.ended('demo'), await other.running('demo'), await other.running('demo')];
    const first = await list('demo', ADMIN, other);
    assert.deepEqual(ids(first), [made[2]?.id, made[1]?.id]);
    const second = await list(`demo?page=${first.next_page}`, ADMIN, other);
    assert.deepEqual([ids(second), second.next_page], [[made[0]?.id], undefined]);
    assert.deepEqual(ids(await list('demo?state=succeeded,failed', ADMIN, other)), [made[0]?.id]);
    assert.deepEqual(ids(await list('demo?state=queued', ADMIN, other)), []);
  });

  test('holds synchronous calls too', async () => {
    await using other = await startJobsServer();
    await other.jobs.service('demo');
    const call = other.call('POST', '/run/demo', { as: TOKEN, body: 'x' });
    const [name = ''] = await eventually(() => {
      assert.equal(other.jobs.runner.attempts.size, 1);
      return [...other.jobs.runner.attempts.keys()];
    });
    other.jobs.runner.end(name);
    await call;
    assert.deepEqual(ids(await list('demo', ADMIN, other)), [name]);
  });

  test('shows users their own', async () => {
    await using other = await startJobsServer();
    await other.jobs.service('open', { visibility: 'public' });
    const byBob = await other.running('open', by(BOB));
    const byToken = await other.running('open');
    assert.deepEqual(ids(await list('open', by(BOB), other)), [byBob.id]);
    assert.deepEqual(ids(await list('open', by(ALICE), other)), [byToken.id]);
    assert.deepEqual(ids(await list('open', by(CAROL), other)), []);
    assert.equal((await list('open', ADMIN, other)).jobs.length, 2);
  });

  const refused: [string, RegExp][] = [
    ['state=running,asleep', /^state: must be one or more of accepted, queued/],
    ['page=bogus', /this page is not known/],
    ['wait=5', /^wait: requires since/],
    ['since=x&state=running', /^since: cannot be combined with/],
    ['since=x&wait=61', /^wait: must be a number of seconds up to 60/],
    ['since=x&wait=-1', /^wait: must be/],
    ['since=x&wait=soon', /^wait: must be/],
  ];
  for (const [query, sentence] of refused) {
    test(`?${query} is 400 with a sentence`, async () => {
      const { status, text } = await server.call('GET', `/system/jobs/open?${query}`, { as: ADMIN });
      assert.equal(status, 400);
      assert.match(text, sentence);
    });
  }

  test('of a service that is not there, or not for this caller, is 404', async () => {
    await server.jobs.service('hidden');
    assert.equal((await server.call('GET', '/system/jobs/nope', { as: ADMIN })).status, 404);
    assert.equal((await server.call('GET', '/system/jobs/hidden', { as: by(BOB) })).status, 404);
    assert.equal((await server.call('GET', '/system/jobs/hidden?since=x&wait=60', { as: by(BOB) })).status, 404);
  });
});

describe('changes since a list', () => {
  test('are the jobs that changed, in their newest state, and the ids of those that are gone', async () => {
    const ended = await server.ended('open');
    const { cursor } = await list('open');
    const running = await server.running('open');
    await server.call('DELETE', `/system/logs/open/${ended.id}`, { as: ADMIN });
    const changed = await list(`open?since=${cursor}`);
    assert.deepEqual(
      changed.jobs.map(({ id, state }) => [id, state]),
      [[running.id, 'running']],
    );
    assert.deepEqual(changed.gone, [ended.id]);
    assert.deepEqual(await list(`open?since=${changed.cursor}`), { jobs: [], gone: [], cursor: changed.cursor });
  });

  test('are waited for', async () => {
    const { cursor } = await list('open', by(BOB));
    const waiting = list(`open?since=${cursor}&wait=60`, by(BOB));
    await server.running('open', TOKEN);
    const { id } = await server.running('open', by(BOB));
    assert.deepEqual(ids(await waiting), [id]);
  });

  test('that do not come are an empty answer in time', async () => {
    await using quiet = await startJobsServer();
    await quiet.jobs.service('demo');
    const { cursor } = await list('demo', ADMIN, quiet);
    assert.deepEqual(await list(`demo?since=${cursor}&wait=0.05`, ADMIN, quiet), { jobs: [], gone: [], cursor });
  });

  test('since a cursor that is not known are 410 with a sentence', async () => {
    for (const cursor of ['x', Buffer.from('after:["other",5]').toString('base64url')]) {
      const { status, text } = await server.call('GET', `/system/jobs/open?since=${cursor}&wait=60`, { as: ADMIN });
      assert.equal(status, 410);
      assert.match(text, /list again from the start/);
    }
  });

  test('are not waited for while the manager stops', async () => {
    await using stopping = await startJobsServer();
    await stopping.jobs.service('demo');
    const { cursor } = await list('demo', ADMIN, stopping);
    let listeners = 0;
    const usual = stopping.jobs.store.onChange.bind(stopping.jobs.store);
    stopping.jobs.store.onChange = (listener) => {
      listeners += 1;
      return usual(listener);
    };
    const waiting = list(`demo?since=${cursor}&wait=60`, ADMIN, stopping);
    await eventually(() => assert.equal(listeners, 1));
    await stopping.stop();
    assert.deepEqual((await waiting).jobs, []);
  });
});

describe('jobs of all services', () => {
  const listAll = async (query: string, as = ADMIN) => {
    const { status, text } = await server.call('GET', `/system/jobs${query}`, { as });
    assert.equal(status, 200, text);
    return JSON.parse(text) as Listed;
  };

  test('job list: callers see what they see in the lists of the services, page by page', async () => {
    await server.jobs.service('other', { visibility: 'public' });
    const mine: JobKey[] = [];
    for (const service of ['open', 'other', 'open']) mine.push(await server.ended(service, by(CAROL)));
    const bobs = await server.ended('other', by(BOB));
    const [first, second] = await eventually(async () => {
      const page = await listAll('', by(CAROL));
      assert.deepEqual(ids(page), [mine[2]?.id, mine[1]?.id]);
      return [page, await listAll(`?page=${page.next_page}`, by(CAROL))];
    });
    assert.deepEqual(ids(second), [mine[0]?.id]);
    assert.equal(second.next_page, undefined);
    assert.ok(first.jobs.every((job) => !('timeline' in job)));
    assert.deepEqual(ids(await listAll('?service=other&limit=9', by(CAROL))), [mine[1]?.id]);
    assert.deepEqual(ids(await listAll(`?user=${BOB}`, by(CAROL))), []);
    assert.equal(ids(await listAll(`?user=${CAROL}&state=succeeded&limit=9`)).length, 3);
    assert.ok(ids(await listAll('?limit=9&service=other')).includes(bobs.id));
  });

  test('job list: a service that a user may not see any more hides the jobs of the user', async () => {
    await server.jobs.service('closing', { visibility: 'public' });
    const { id } = await server.ended('closing', by(BOB));
    await eventually(async () => assert.ok(ids(await listAll('?limit=9', by(BOB))).includes(id)));
    const record = await server.jobs.services.get('closing');
    assert.ok(record);
    const { definition } = record.service;
    const service = { ...record.service, definition: { ...definition, visibility: 'private' as const } };
    await server.jobs.services.replace(service, record.version);
    assert.ok(!ids(await listAll('?limit=9', by(BOB))).includes(id));
    assert.deepEqual(ids(await listAll('?service=closing', by(BOB))), []);
  });

  test('job list: an unknown state, limit or page is 400 with a sentence', async () => {
    for (const [query, part] of [
      ['state=asleep', 'state: must be one or more of'],
      ['limit=0', 'limit: must be a number from 1 to 1000'],
      ['limit=1001', 'limit: must be'],
      ['limit=ten', 'limit: must be'],
      ['page=nonsense', 'this page is not known'],
    ] as const) {
      const { status, text } = await server.call('GET', `/system/jobs?${query}`, { as: ADMIN });
      assert.equal(status, 400, query);
      assert.ok(text.includes(part), text);
    }
  });
});
