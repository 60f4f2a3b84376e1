import assert from 'node:assert/strict';
import diagnostics from 'node:diagnostics_channel';
import { readFileSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { AUDITED_ROUTES } from '../src/http/audit.ts';
import { ALICE } from './support/issuer-users.ts';
import { eventually } from './support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from './support/manager.ts';
import { type People, startPeople } from './support/people.ts';

interface Line {
  readonly audit: number;
  readonly time: string;
  readonly action: string;
  readonly actor: string;
  readonly outcome: string;
  readonly object?: string;
  readonly reason?: string;
  readonly request?: string;
  readonly address?: string;
  readonly count?: number;
  readonly details?: Record<string, string | number>;
}

/** The routes of the manager, from its own table, so that no new route is left out. */
const routes: { readonly method: string; readonly url: string; readonly isConstrained: boolean }[] = [];
function collect(message: unknown): void {
  const { fastify } = message as { readonly fastify: FastifyInstance };
  fastify.addHook('onRoute', ({ method, url, constraints }) => {
    const isConstrained = Object.keys(constraints ?? {}).length > 0;
    for (const each of [method].flat()) routes.push({ method: each, url, isConstrained });
  });
}

let people: People;
let manager: TestManager;
before(async () => {
  people = await startPeople();
  diagnostics.subscribe('fastify.initialization', collect);
  manager = await startTestManager(people.settings);
  diagnostics.unsubscribe('fastify.initialization', collect);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await people.issuer.stop();
});

const fileOf = ({ directory }: TestManager) => join(directory, 'audit.jsonl');
const read = (file: string) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line);

/** Sends a request, and resolves to its event once that is written. */
async function act(method: string, path: string, as: string, body?: unknown, request = `r-${Math.random()}`) {
  const headers = { 'x-request-id': request };
  const { status } = await manager.call(method, path, { as, headers, ...(body !== undefined && { body }) });
  const event = await eventually(async () => {
    const found = read(fileOf(manager)).find((line) => line.request === request);
    assert.ok(found, `${method} ${path} was answered with ${status}, and caused no event`);
    return found;
  });
  return { status, event };
}

const SERVICE = { name: 'audited', image: 'busybox', script: '#!/bin/sh\necho done\n' };

/** Each act of the table depends on those before. */
const acts: {
  readonly name: string;
  readonly as: 'admin' | 'alice' | 'bob';
  readonly request: readonly [method: string, path: string, body?: unknown];
  readonly event: Partial<Line>;
}[] = [
  {
    name: 'creating a service',
    as: 'alice',
    request: ['POST', '/system/services', SERVICE],
    event: { action: 'service.create', actor: `user:${ALICE.sub}`, object: 'service/audited', outcome: 'success' },
  },
  {
    name: 'sharing a service',
    as: 'alice',
    request: ['PUT', '/system/services', { ...SERVICE, visibility: 'restricted', allowed_users: ['a', 'b'] }],
    event: { action: 'service.update', outcome: 'success', details: { visibility: 'restricted', allowed_users: 2 } },
  },
  {
    name: 'deleting a service of another user',
    as: 'bob',
    request: ['DELETE', '/system/services/audited'],
    event: { action: 'service.delete', object: 'service/audited', outcome: 'refused', reason: 'not-found' },
  },
  {
    name: 'deleting a service as the administrator',
    as: 'admin',
    request: ['DELETE', '/system/services/audited'],
    event: { action: 'service.delete', actor: 'admin', object: 'service/audited', outcome: 'success' },
  },
  {
    name: 'creating a bucket',
    as: 'alice',
    request: ['POST', '/system/buckets', { bucket_name: 'audited-bucket', visibility: 'public' }],
    event: { action: 'bucket.create', object: 'bucket/audited-bucket', details: { visibility: 'public' } },
  },
  {
    name: 'changing a bucket',
    as: 'alice',
    request: [
      'PUT',
      '/system/buckets',
      { bucket_name: 'audited-bucket', visibility: 'restricted', allowed_users: ['a'] },
    ],
    event: { action: 'bucket.update', details: { visibility: 'restricted', allowed_users: 1 } },
  },
  {
    name: 'deleting a bucket',
    as: 'alice',
    request: ['DELETE', '/system/buckets/audited-bucket'],
    event: { action: 'bucket.delete', object: 'bucket/audited-bucket' },
  },
  {
    name: 'new keys of a user',
    as: 'alice',
    request: ['POST', '/system/config/keys'],
    event: { action: 'keys.rotate', actor: `user:${ALICE.sub}`, outcome: 'success' },
  },
  {
    name: 'a request that is not valid',
    as: 'alice',
    request: ['POST', '/system/services', 'not json'],
    event: { action: 'service.create', outcome: 'refused' },
  },
  {
    name: 'a change of the settings by a user',
    as: 'alice',
    request: ['PUT', '/system/config', {}],
    event: { action: 'settings.update', outcome: 'refused' },
  },
];

describe('audit', () => {
  for (const { name, as, request, event: expected } of acts) {
    test(`audit: ${name}`, async () => {
      const [method, path, body] = request;
      const { event } = await act(method, path, as === 'admin' ? ADMIN : people[as], body);
      assert.deepEqual({ ...event, ...expected }, event);
      assert.deepEqual([event.audit, event.address], [1, '127.0.0.1']);
      assert.ok(Math.abs(Date.parse(event.time) - Date.now()) < 3600_000);
    });
  }

  test('audit: every route that changes something has an action', () => {
    const changing = routes.filter(({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method));
    assert.ok(changing.length > 20);
    const missing = changing.map(({ method, url }) => `${method} ${url}`).filter((route) => !AUDITED_ROUTES[route]);
    assert.deepEqual(missing, []);
    const gone = Object.keys(AUDITED_ROUTES).filter(
      (known) => !changing.some((it) => `${it.method} ${it.url}` === known),
    );
    assert.deepEqual(gone, []);
  });

  test('audit: every route that changes something causes an event', async () => {
    const isChanging = (method: string) => !['GET', 'HEAD', 'OPTIONS'].includes(method);
    // Requests of other managers need a signature: test/federation/audit.test.ts has them.
    const ofUsers = routes.filter(
      ({ method, url, isConstrained }) => isChanging(method) && !isConstrained && !isPeer(url),
    );
    for (const { method, url } of ofUsers) {
      const path = url.replaceAll(/:\w+/g, 'nothing');
      const { event } = await act(method, path, people.alice, '{}');
      assert.equal(event.actor, `user:${ALICE.sub}`, `${method} ${url}`);
    }
  });

  test('audit: failures of strangers are recorded once, then counted', async () => {
    await using quiet = await startTestManager(people.settings);
    const wrong = `Basic ${Buffer.from('oscar:wrong').toString('base64')}`;
    for (let i = 0; i < 10; i++) await quiet.call('GET', '/system/info', { as: wrong });
    for (let i = 0; i < 5; i++) await quiet.call('DELETE', '/system/services/x');
    await quiet.stop();
    const events = read(fileOf(quiet)).map(({ action, actor, outcome, reason, count }) =>
      [action, actor, outcome, reason, count ?? 1].join(' '),
    );
    assert.deepEqual(events.toSorted(), [
      'sign-in anonymous refused bad-credentials 1',
      'sign-in anonymous refused bad-credentials 9',
      'sign-in anonymous refused no-credentials 1',
      'sign-in anonymous refused no-credentials 4',
    ]);
  });

  test('audit: the stream has no secrets, and only the manager reads it', async () => {
    const text = readFileSync(fileOf(manager), 'utf8');
    for (const secret of [people.alice.slice(7), people.bob.slice(7), 'correct horse'])
      assert.ok(!text.includes(secret));
    assert.equal(statSync(fileOf(manager)).mode & 0o777, 0o600);
  });

  test('audit: after a rotation by renaming, events go to a new file', async () => {
    const file = fileOf(manager);
    await act('POST', '/system/config/keys', people.alice);
    renameSync(file, `${file}.1`);
    const rotated = read(`${file}.1`).length;
    await manager.call('POST', '/system/config/keys', { as: people.alice });
    await eventually(async () => assert.equal(read(file).length, 1));
    assert.equal(read(`${file}.1`).length, rotated);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });

  test('audit: a file that cannot be written makes the manager unready, and is logged', async () => {
    await using blind = await startTestManager({ OSCAR_AUDIT_FILE: '/nowhere/audit.jsonl' });
    const answer = await blind.call('GET', '/ready');
    assert.equal(answer.status, 503);
    assert.match(answer.text, /AuditUnavailable/);
    assert.match(JSON.stringify(blind.log), /the audit file cannot be written/);
  });
});

const PEER_URLS = [
  '/system/events/storage',
  '/changes',
  '/departures',
  '/jobs',
  '/attempts/:epoch',
  '/:name/federation',
];
const isPeer = (url: string) => PEER_URLS.some((end) => url.endsWith(end));
