import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Fastify from 'fastify';
import { createAuthenticator } from '../../identity/index.ts';
import { ALICE, BOB, openJobs } from '../../jobs/jobs.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { ADMIN, by, CAROL, Incoming, type JobsServer, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';
import { OpenResponses } from '../open-answers.ts';
import { eventsRoutes } from './events.ts';

async function open(): Promise<JobsServer> {
  const server = await startJobsServer();
  await server.jobs.service('open', { visibility: 'public' });
  await server.jobs.service('demo');
  return server;
}

/** Follows from now on, or from the last event of an earlier connection. */
async function follow(server: JobsServer, as: string, last?: string): Promise<Incoming> {
  const response = await server.open('GET', '/system/events', { as, headers: last ? { 'last-event-id': last } : {} });
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const incoming = new Incoming(response);
  // It says at once where it begins.
  await incoming.until('id: ');
  return incoming;
}

/** Events as a browser would see them. */
function eventsOf(text: string): { event: string; data: Record<string, string>; id?: string }[] {
  return text
    .split('\n\n')
    .map((block) => new Map(block.split('\n').map((line) => line.split(/: (.*)/s) as [string, string])))
    .filter((fields) => fields.has('data'))
    .map((fields) => ({
      event: fields.get('event') ?? 'message',
      data: JSON.parse(fields.get('data') ?? '') as Record<string, string>,
      ...(fields.has('id') && { id: fields.get('id') ?? '' }),
    }));
}

const lastId = (text: string) => [...text.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] ?? '';

describe('server-sent events', () => {
  test('tell of every job that changes, and of those that are deleted', async () => {
    await using server = await open();
    const incoming = await follow(server, ADMIN);
    const key = await server.running('open', by(BOB));
    server.jobs.runner.end(key.id);
    await incoming.until('"state":"succeeded"');
    await server.call('DELETE', `/system/logs/open/${key.id}`, { as: ADMIN });
    const events = eventsOf(await incoming.until(/event: gone\n.*\n(id: .*\n)?\n/));
    for (const { data } of events) assert.deepEqual([data['service'], data['id']], ['open', key.id]);
    const last = events.findLast(({ event }) => event === 'job')?.data;
    assert.deepEqual([last?.['state'], last?.['phase'], last?.['invoker']], ['succeeded', 'Succeeded', BOB]);
    assert.equal(events.at(-1)?.event, 'gone');
    await incoming.leave();
  });

  test('concern the caller: users are told of their own jobs, strangers of nothing', async () => {
    await using server = await open();
    const [bob, alice, carol] = [
      await follow(server, by(BOB)),
      await follow(server, by(ALICE)),
      await follow(server, by(CAROL)),
    ];
    const byBob = await server.running('open', by(BOB));
    const byToken = await server.running('demo', TOKEN);
    const byCarol = await server.running('open', by(CAROL));
    const idsIn = async (incoming: Incoming, id: string) => [
      ...new Set(eventsOf(await incoming.until(`"id":"${id}"`)).map(({ data }) => data['id'])),
    ];
    assert.deepEqual(await idsIn(carol, byCarol.id), [byCarol.id]);
    assert.deepEqual(await idsIn(bob, byBob.id), [byBob.id]);
    assert.deepEqual(await idsIn(alice, byToken.id), [byToken.id]);
    await Promise.all([bob.leave(), alice.leave(), carol.leave()]);
  });

  test('job events: deletes are sent only to callers who may delete all jobs', async () => {
    await using server = await open();
    const key = await server.ended('open', by(BOB));
    const [owner, guest] = [await follow(server, by(ALICE)), await follow(server, by(CAROL))];
    await server.call('DELETE', `/system/logs/open/${key.id}`, { as: by(BOB) });
    await owner.until(`event: gone\ndata: {"service":"open","id":"${key.id}"}`);
    const { id } = await server.running('open', by(CAROL));
    assert.ok(!(await guest.until(id)).includes(key.id));
    await Promise.all([owner.leave(), guest.leave()]);
  });

  test('go on where the last connection ended, and nothing between is missed', async () => {
    await using server = await open();
    const first = await follow(server, by(BOB));
    const seen = await server.running('open', by(BOB));
    const last = lastId(await first.until(/"state":"running".*\nid: .*\n/));
    await first.leave();
    const missed = await server.ended('open', by(BOB));
    const second = await follow(server, by(BOB), last);
    const text = await second.until(`"id":"${missed.id}"`);
    assert.deepEqual(
      eventsOf(`${text}\n\n`)
        .filter(({ data }) => data['id'] === missed.id)
        .map(({ data }) => data['state']),
      ['succeeded'],
    );
    assert.ok(!eventsOf(text).some(({ data }) => data['id'] === seen.id && data['state'] === 'queued'));
    await second.leave();
  });

  test('since an id that is not known begin with resync, and go on from there', async () => {
    await using server = await open();
    const incoming = await follow(server, ADMIN, 'bogus');
    assert.match(incoming.text, /^event: resync\ndata: \{\}\nid: .+\n\n/);
    const { id } = await server.running('open');
    await incoming.until(id);
    await incoming.leave();
  });

  test('a connection on which nothing happens is shown to be alive', async (t) => {
    await using jobs = await openJobs();
    const app = Fastify();
    t.after(() => app.close());
    app.decorateRequest('who', '');
    const authenticator = createAuthenticator({ admin: { username: 'oscar', password: new Secret('correct horse') } });
    eventsRoutes(app, { authenticator, jobs, open: new OpenResponses(app), heartbeatMs: 20 });
    const url = await app.listen({ host: '127.0.0.1', port: 0 });
    const incoming = new Incoming(await fetch(`${url}/system/events`, { headers: { authorization: ADMIN } }));
    await incoming.until(/^(:\nid: .+\n\n){3}/);
    await incoming.leave();
  });

  test('end when the manager stops, and do not hold it up', async () => {
    await using server = await open();
    const incoming = await follow(server, ADMIN);
    await server.stop();
    await incoming.toEnd();
  });

  test('job events: reading stops when the last client disconnects', async () => {
    await using server = await open();
    let listening = 0;
    const usual = server.jobs.store.onChange.bind(server.jobs.store);
    server.jobs.store.onChange = (listener) => {
      const ends = usual(listener);
      listening += 1;
      return () => {
        listening -= 1;
        ends();
      };
    };
    const incoming = await follow(server, ADMIN);
    assert.equal(listening, 1);
    await incoming.leave();
    await eventually(() => assert.equal(listening, 0));
  });

  test('are for the administrator and users, not for tokens of services', async () => {
    await using server = await open();
    assert.equal((await server.call('GET', '/system/events', { as: TOKEN })).status, 401);
    assert.equal((await server.call('GET', '/system/events')).status, 401);
  });
});
