import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { pino } from 'pino';
import { MemoryServer, PERMIT } from '../../delegation/memory-server.fixture.ts';
import type { Coordination, Federations } from '../../federation/index.ts';
import { Secret } from '../../lib/secret.ts';
import { ALICE, openFederated } from '../../peers/client/federated.fixture.ts';
import { HttpOrigin } from '../../peers/client/http-origin.ts';
import { HttpTarget } from '../../peers/client/http-target.ts';
import { PeerConnection } from '../../peers/connection/peer-connection.ts';
import { Transport } from '../../peers/connection/transport.ts';
import { describeOrigin, describeTarget } from '../../peers/delegation-ports.conformance.ts';
import { DelegationError, type MemberKey, sign, writeContentDigest } from '../../peers/index.ts';
import type { AuditEvent } from '../../ports/index.ts';
import { auditRequests } from '../audit.ts';
import { acceptAnyBody } from '../body.ts';
import { answerError } from '../errors.ts';
import { ADMIN, startJobsServer, TOKEN } from '../jobs-server.fixture.ts';
import { OpenResponses } from '../open-answers.ts';
import { logRequests } from '../server.ts';
import { delegationRoutes } from './delegation.ts';

const LONGEST_EVENT = 2_000_000;

/** A manager with nothing but what other managers say to it about jobs, and a route that people use. */
async function openManager() {
  const federated = await openFederated();
  const lines: string[] = [];
  const log: FastifyBaseLogger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
  const app: FastifyInstance = Fastify({
    loggerInstance: log,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: 1000,
  });
  acceptAnyBody(app);
  app.setErrorHandler(answerError);
  logRequests(app);
  const audited: AuditEvent[] = [];
  auditRequests(app, { record: (event) => void audited.push(event) });
  for (const path of ['/system/config', '/system/status', '/system/logs/:name/:id']) {
    app.get(path, async () => 'for people');
  }
  app.post('/job/:name', async () => 'for people');
  app.delete('/system/jobs/:name/:id', async () => 'for people');
  delegationRoutes(app, {
    delegation: federated.server,
    federations: {
      workers: federated.workers,
      coordination: federated.coordination as unknown as Coordination,
    } satisfies Federations,
    maxEventBytes: LONGEST_EVENT,
    open: new OpenResponses(app),
  });
  const endpoint = await app.listen({ host: '127.0.0.1', port: 0 });
  const address = { clusterId: 'b', endpoint, verify: true, guarded: false, kind: 'oscar' } as const;
  const transport = new Transport(address, { networks: [] });
  const close = async () => {
    transport.close();
    app.server.closeAllConnections();
    await app.close();
    await federated[Symbol.asyncDispose]();
  };
  return { ...federated, lines, audited, endpoint, address, transport, close, [Symbol.asyncDispose]: close };
}

type Manager = Awaited<ReturnType<typeof openManager>>;

describeTarget('another manager', async () => {
  const manager = await openManager();
  const target = new HttpTarget(manager.address, new PeerConnection(manager.address, manager.transport));
  return { ...manager.target, target, server: manager.server, close: manager.close };
});

describeOrigin('another manager', async () => {
  const manager = await openManager();
  const origin = new HttpOrigin(manager.address, new PeerConnection(manager.address, manager.transport));
  return { ...manager.origin, origin, server: manager.server, close: manager.close };
});

interface Call {
  readonly method: string;
  readonly path: string;
  readonly query?: string;
  readonly text?: string;
  readonly headers?: Record<string, string>;
  readonly nonce?: string;
}

function headersOf({ method, path, query = '', text = '', nonce = 'nonce-of-the-test' }: Call, as: MemberKey) {
  return {
    'x-oscar-member': sign({ method, path, query, body: text }, as, { time: Date.now(), nonce }),
    'content-digest': writeContentDigest(text),
  };
}

function send(
  { endpoint }: Manager,
  { method, path, query, text, headers }: Call,
  signed: Record<string, string> = {},
) {
  const url = `${endpoint}${path}${query ? `?${query}` : ''}`;
  return fetch(url, { method, headers: { ...headers, ...signed }, ...(text !== undefined && { body: text }) });
}

const sendSigned = (manager: Manager, call: Call, as: MemberKey) => send(manager, call, headersOf(call, as));

const JOB = 'cow-0d9e7a52-1c36-4c6f-8f0e-0c7c2a3a9b11';
const PERMIT_CALL: Call = { method: 'GET', path: '/system/config', query: `job=cow/${JOB}&epoch=3` };
const OFFER = { job: `cow/${JOB}`, epoch: 3, trigger: 'storage', pinned: false, from: 'a' };
const OFFER_CALL: Call = {
  method: 'POST',
  path: '/job/demo',
  text: JSON.stringify({ storage_provider: 'default', event: '{}', offer: OFFER }),
};
const REPORT_CALL: Call = {
  method: 'POST',
  path: `/system/federation/cow/jobs/${JOB}/attempts/3`,
  text: '{"state":"running"}',
};
const OPEN_CALL: Call = {
  method: 'POST',
  path: '/system/federation/cow/jobs',
  text: JSON.stringify({ id: JOB, event: '{}', invoker: 'alice' }),
};

describe('what managers are answered about jobs', () => {
  test('the exchanges are these', async () => {
    await using manager = await openManager();
    const { target, origin } = manager;
    const offered = await sendSigned(manager, OFFER_CALL, target.speaker);
    const { attempt } = (await offered.json()) as { attempt: string };
    assert.deepEqual([offered.status, offered.headers.get('location')], [201, `/system/jobs/demo/${attempt}`]);
    const permit = await sendSigned(manager, PERMIT_CALL, origin.member);
    assert.equal(permit.headers.get('cache-control'), 'no-store');
    assert.deepEqual(await permit.json(), {
      minio_provider: {
        endpoint: 'https://store.example',
        verify: true,
        region: 'us-east-1',
        access_key: 'access',
        secret_key: 'very/secret+key=',
        session_token: 'session',
        expires_at: 1_767_225_600_000,
      },
      input: PERMIT.input,
      staging: PERMIT.staging,
      lease: 90_000,
    });
    const report = await sendSigned(manager, REPORT_CALL, origin.member);
    assert.deepEqual([report.status, await report.text()], [204, '']);
    assert.equal((await sendSigned(manager, OPEN_CALL, origin.member)).status, 201);
    const status = await sendSigned(manager, { method: 'GET', path: '/system/status' }, target.speaker);
    assert.deepEqual(await status.json(), {
      nodes: [
        { cpu: 4000, memory: 8 * 2 ** 30, gpu: 0 },
        { cpu: 500, memory: 2 ** 20, gpu: 1 },
      ],
      node_count: 3,
      free_cpu: 4500,
      pending: 2,
    });
    const log = await sendSigned(manager, { method: 'GET', path: `/system/logs/demo/${attempt}` }, target.speaker);
    assert.deepEqual([log.status, await log.text()], [200, 'one\ntwo\n']);
    const stop = await sendSigned(manager, { method: 'DELETE', path: `/system/jobs/demo/${attempt}` }, target.speaker);
    assert.deepEqual([stop.status, manager.server.stopped.length], [204, 1]);
  });

  test('people who ask without a signature get the answers for people', async () => {
    await using manager = await openManager();
    const calls = [PERMIT_CALL, OFFER_CALL, { method: 'GET', path: '/system/status' }];
    const more = [
      { method: 'GET', path: '/system/logs/demo/x' },
      { method: 'DELETE', path: '/system/jobs/demo/x' },
    ];
    for (const call of [...calls, ...more]) {
      assert.equal(await (await send(manager, call)).text(), 'for people', call.path);
    }
    for (const call of [REPORT_CALL, OPEN_CALL]) assert.equal((await send(manager, call)).status, 401);
    assert.deepEqual([manager.server.offers, manager.server.reports, manager.server.opened], [[], [], []]);
  });

  test('permit: a replayed request is rejected, and the same attempt may ask again', async () => {
    await using manager = await openManager();
    const { member } = manager.origin;
    const signed = headersOf(PERMIT_CALL, member);
    assert.equal((await send(manager, PERMIT_CALL, signed)).status, 200);
    const again = await send(manager, PERMIT_CALL, signed);
    assert.deepEqual([again.status, await again.json()], [401, { code: 'bad-signature' }]);
    assert.equal((await sendSigned(manager, { ...PERMIT_CALL, nonce: 'another-nonce-now' }, member)).status, 200);
    assert.equal(manager.server.permits.length, 2);
  });

  test('a request without the right signature does not use up a nonce', async () => {
    await using manager = await openManager();
    const { member } = manager.origin;
    const wrong = { ...member, key: new Secret('w'.repeat(64)) };
    assert.equal((await sendSigned(manager, PERMIT_CALL, wrong)).status, 401);
    assert.equal((await sendSigned(manager, PERMIT_CALL, member)).status, 200);
  });

  const changed: [string, Call, Call][] = [
    ['another epoch', PERMIT_CALL, { ...PERMIT_CALL, query: `job=cow/${JOB}&epoch=4` }],
    ['another attempt', REPORT_CALL, { ...REPORT_CALL, path: REPORT_CALL.path.replace(/3$/, '4') }],
    ['another report', REPORT_CALL, { ...REPORT_CALL, text: '{"state":"running","message":"x"}' }],
    ['another job', OPEN_CALL, { ...OPEN_CALL, text: (OPEN_CALL.text ?? '').replace('alice', 'bob') }],
  ];
  for (const [what, signed, sent] of changed) {
    test(`a signature is not good for ${what}`, async () => {
      await using manager = await openManager();
      const answer = await send(manager, sent, headersOf(signed, manager.origin.member));
      assert.deepEqual([answer.status, await answer.json()], [401, { code: 'bad-signature' }]);
    });
  }

  test('an offer whose body was changed on the way is refused', async () => {
    await using manager = await openManager();
    const sent = { ...OFFER_CALL, text: (OFFER_CALL.text ?? '').replace('"epoch":3', '"epoch":4') };
    const answer = await send(manager, sent, headersOf(OFFER_CALL, manager.target.speaker));
    assert.deepEqual([answer.status, await answer.json()], [401, { code: 'bad-signature' }]);
    assert.deepEqual(manager.server.offers, []);
  });

  const codes: [ConstructorParameters<typeof DelegationError>[0], number][] = [
    ['fenced', 409],
    ['payload-differs', 409],
    ['offer-not-allowed', 403],
    ['job-gone', 404],
    ['input-unreadable', 424],
    ['offer-no-room', 429],
    ['origin-silent', 503],
  ];
  for (const [code, status] of codes) {
    test(`${code} is ${status}, and says so to programs alone`, async () => {
      await using manager = await openManager();
      manager.server.problem = new DelegationError(code, 'a sentence for our own log');
      const answer = await sendSigned(manager, OFFER_CALL, manager.target.speaker);
      assert.deepEqual([answer.status, await answer.text()], [status, JSON.stringify({ code })]);
    });
  }

  test('audit: a fenced report is recorded, an accepted one is not, and a forged one has no actor', async () => {
    await using manager = await openManager();
    const { member } = manager.origin;
    assert.equal((await sendSigned(manager, REPORT_CALL, member)).status, 204);
    manager.server.problem = new DelegationError('fenced', 'superseded');
    assert.equal((await sendSigned(manager, REPORT_CALL, member)).status, 409);
    const forged = { ...headersOf(REPORT_CALL, { ...member, key: new Secret('x'.repeat(32)) }) };
    assert.equal((await send(manager, REPORT_CALL, forged)).status, 401);
    await manager.close();
    assert.deepEqual(
      manager.audited.map(({ action, actor, outcome, reason }) => [action, actor, outcome, reason]),
      [
        ['job.report', `member:${member.member}`, 'refused', 'fenced'],
        ['sign-in', 'anonymous', 'refused', 'bad-signature'],
      ],
    );
  });

  const bad: [string, Call, 'target' | 'origin'][] = [
    ['an offer that is junk', { ...OFFER_CALL, text: '{"event":7}' }, 'target'],
    ['an offer that is no JSON', { ...OFFER_CALL, text: 'junk' }, 'target'],
    ['a permit for no epoch', { ...PERMIT_CALL, query: `job=cow/${JOB}&epoch=0` }, 'origin'],
    ['a permit for two jobs', { ...PERMIT_CALL, query: `job=cow/${JOB}&job=cow/x&epoch=1` }, 'origin'],
    ['a report of nothing', { ...REPORT_CALL, text: '{"state":"bored"}' }, 'origin'],
    ['a report about no attempt', { ...REPORT_CALL, path: REPORT_CALL.path.replace(/3$/, 'x') }, 'origin'],
    ['a job without an id', { ...OPEN_CALL, text: '{"event":"","invoker":""}' }, 'origin'],
  ];
  for (const [what, call, side] of bad) {
    test(`${what} is 400`, async () => {
      await using manager = await openManager();
      const as = side === 'target' ? manager.target.speaker : manager.origin.member;
      assert.equal((await sendSigned(manager, call, as)).status, 400);
    });
  }

  test('an event is as long as it may be, in whatever form it comes, and no longer', async () => {
    await using manager = await openManager();
    const target = new HttpTarget(manager.address, new PeerConnection(manager.address, manager.transport));
    const offer = { job: { service: 'cow', id: JOB }, epoch: 1, service: 'demo', from: 'a' };
    const rest = { trigger: 'job', pinned: false } as const;
    for (const [index, byte] of [0x00, 0x22, 0x61, 0xff].entries()) {
      const event = Buffer.alloc(LONGEST_EVENT, byte);
      const answer = await target.offer({ ...offer, ...rest, epoch: index + 1, event }, manager.target.speaker);
      assert.equal(answer.kind, 'taken');
    }
    const longer = { ...offer, ...rest, epoch: 9, event: Buffer.alloc(LONGEST_EVENT + 1, 0x61) };
    const answer = await target.offer(longer, manager.target.speaker);
    assert.equal(answer.kind === 'refused' && answer.code, 'failed');
  });

  test('strangers are turned away before they have sent much', async () => {
    await using manager = await openManager();
    const { target, origin } = manager;
    const unknown = (as: MemberKey) => ({ ...as, uid: 'nobody-knows-it' });
    const endless = () => new ReadableStream({ pull: (to) => to.enqueue(Buffer.alloc(65_536)) });
    const calls: [Call, MemberKey, number][] = [
      [OFFER_CALL, unknown(target.speaker), 404],
      [{ ...OFFER_CALL, headers: { authorization: `Bearer ${ALICE.reveal()}` } }, unknown(target.speaker), 404],
      [OPEN_CALL, unknown(origin.member), 410],
    ];
    for (const [call, as, status] of calls) {
      const answer = await fetch(`${manager.endpoint}${call.path}`, {
        method: 'POST',
        headers: { ...call.headers, ...headersOf(call, as) },
        body: endless(),
        duplex: 'half',
      });
      assert.equal(answer.status, status);
    }
  });

  test('offer: an Authorization header, as an earlier version sent it, is not read', async () => {
    await using manager = await openManager();
    const { speaker } = manager.target;
    for (const authorization of [`Bearer ${ALICE.reveal()}`, 'Bearer expired', 'Basic junk']) {
      const offered = await sendSigned(manager, { ...OFFER_CALL, headers: { authorization } }, speaker);
      assert.equal(offered.status, 201, authorization);
    }
    const forged = { ...OFFER_CALL, headers: { authorization: `Bearer ${ALICE.reveal()}` } };
    const refused = await sendSigned(manager, forged, { ...speaker, key: new Secret('f'.repeat(64)) });
    assert.equal(refused.status, 401);
  });

  test('no key of a permit, no token and no signature is ever logged', async () => {
    await using manager = await openManager();
    await sendSigned(manager, OFFER_CALL, manager.target.speaker);
    const signed = headersOf(PERMIT_CALL, manager.origin.member);
    await send(manager, PERMIT_CALL, signed);
    await send(manager, PERMIT_CALL, signed);
    const log = manager.lines.join('');
    assert.ok(log.includes('coordinator of b/demo') && log.includes('member c/cow'));
    for (const secret of ['very/secret+key=', ALICE.reveal(), signed['x-oscar-member']]) {
      assert.ok(!log.includes(secret));
    }
  });
});

test('in the whole server, what is signed is for other managers and all else for people', async () => {
  await using server = await startJobsServer({ delegation: new MemoryServer() });
  await server.jobs.service('cow');
  const job = { method: 'POST', path: '/job/cow' };
  const key = { uid: 'unknown', member: 'b/cow', key: new Secret('k'.repeat(64)) };
  const [signed, plain] = [headersOf(job, key), { authorization: TOKEN }];
  const offered = await server.call(job.method, job.path, { headers: { ...plain, ...signed }, body: '' });
  assert.deepEqual([offered.status, offered.text], [404, '{"code":"not-found"}']);
  assert.equal((await server.call(job.method, job.path, { headers: plain, body: '' })).status, 201);
  const permit = await server.call('GET', '/system/config', { headers: { authorization: ADMIN, ...signed } });
  assert.equal(permit.status, 400);
});
