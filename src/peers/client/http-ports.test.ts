import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { PeerConnection } from '../connection/peer-connection.ts';
import type { Offer, RefusalCode } from '../delegation-ports.ts';
import { UpstreamTarget } from '../go/upstream-target.ts';
import { HttpOrigin, ORIGIN_DEADLINES } from './http-origin.ts';
import { HttpTarget, TARGET_DEADLINES } from './http-target.ts';
import { listen, type Said } from './listener.fixture.ts';

const SPEAKER = { uid: 'f6a1', member: 'b/cow', key: new Secret('0123456789abcdef'.repeat(4)) };
const JOB = { service: 'cow', id: 'cow-1' };
const OFFER: Offer = {
  job: JOB,
  epoch: 3,
  service: 'worker',
  from: 'a',
  event: Buffer.from('{}'),
  trigger: 'job',
  pinned: false,
};

async function targetThatSays(t: TestContext, said: Said | undefined) {
  const { address, connection, requests } = await listen(t, () => said);
  const deadlines = { ...TARGET_DEADLINES, offer: 100, stop: 100, status: 100 };
  return { target: new HttpTarget(address, connection, said ? undefined : deadlines), requests };
}

test('offer: has these headers and this body, and never a token of the owner', async (t) => {
  const { target, requests } = await targetThatSays(t, { status: 201, json: { attempt: 'worker-1' } });
  const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const taken = await target.offer({ ...OFFER, trace }, { ...SPEAKER, bearer: new Secret('token') });
  assert.deepEqual(taken, { kind: 'taken', attempt: 'worker-1' });
  const [{ method, url, headers, body } = assert.fail('nobody was asked')] = requests;
  assert.equal(`${method} ${url}`, 'POST /job/worker');
  assert.equal(headers['x-delegated-job-id'], 'cow-1');
  assert.equal(headers['x-delegated-from'], 'a');
  assert.equal(headers['traceparent'], trace);
  assert.equal(headers.authorization, undefined);
  assert.match(String(headers['x-oscar-member']), /^f6a1;b\/cow;\d+;[\w-]{22};[0-9a-f]{64}$/);
  assert.deepEqual(JSON.parse(body), {
    storage_provider: 'default',
    event: '{}',
    offer: { job: 'cow/cow-1', epoch: 3, trigger: 'job', pinned: false, from: 'a' },
  });
});

const refusals: [Said, RefusalCode][] = [
  [{ status: 409, json: { code: 'payload-differs' } }, 'payload-differs'],
  [{ status: 409, json: { code: 'fenced' } }, 'fenced'],
  [{ status: 409, text: 'x' }, 'fenced'],
  [{ status: 409, json: { code: 'something new' } }, 'fenced'],
  [{ status: 424 }, 'input-unreadable'],
  [{ status: 429 }, 'no-room'],
  [{ status: 401 }, 'not-allowed'],
  [{ status: 403, text: '<html>' }, 'not-allowed'],
  [{ status: 404 }, 'no-worker'],
  [{ status: 404, json: { code: 'not-found' } }, 'no-worker'],
  [{ status: 410 }, 'no-worker'],
  [{ status: 413 }, 'failed'],
  [{ status: 503, json: { code: 'origin-silent' } }, 'failed'],
];
for (const [said, code] of refusals) {
  test(`${JSON.stringify(said)} is a refusal: ${code}`, async (t) => {
    const { target } = await targetThatSays(t, said);
    const answer = await target.offer(OFFER, SPEAKER);
    assert.equal(answer.kind === 'refused' && answer.code, code);
  });
}

const unknown: [Said | undefined, string][] = [
  [undefined, 'unreachable'],
  [{ status: 500 }, 'failed'],
  [{ status: 502 }, 'unreachable'],
  [{ status: 503, text: 'overloaded' }, 'unreachable'],
  [{ status: 503, json: { code: 'unavailable' } }, 'unreachable'],
  [{ status: 404, text: '<html>' }, 'unreachable'],
  [{ status: 302 }, 'failed'],
  [{ status: 200, json: { attempt: 'worker-1' } }, 'unreachable'],
  [{ status: 201 }, 'unreachable'],
  [{ status: 201, json: { attempt: '../x' } }, 'unreachable'],
];
for (const [said, code] of unknown) {
  test(`${JSON.stringify(said) ?? 'no answer'} says nothing about an offer`, async (t) => {
    const { target } = await targetThatSays(t, said);
    await assert.rejects(target.offer(OFFER, SPEAKER), { name: 'PeerError', code });
  });
}

test('nothing gets into a path or a header that is no name', async (t) => {
  const { target, requests } = await targetThatSays(t, { status: 201 });
  const { address, connection } = await listen(t, () => undefined);
  const origin = new HttpOrigin(address, connection);
  const failed = { name: 'PeerError', code: 'failed' };
  for (const id of ['a/b', '../x', 'x\r\ny: z', '']) {
    await assert.rejects(target.offer({ ...OFFER, job: { ...JOB, id } }, SPEAKER), failed);
    await assert.rejects(origin.permit({ job: { ...JOB, id }, epoch: 1 }, SPEAKER), failed);
  }
  await assert.rejects(target.stop({ ...OFFER, service: '../x' }, SPEAKER), failed);
  assert.equal(requests.length, 0);
});

test('a token that no token can be goes nowhere', async (t) => {
  const { address, connection, requests } = await listen(t, () => ({ status: 201 }));
  const target = new UpstreamTarget(address, connection);
  const as = { ...SPEAKER, bearer: new Secret('a\r\nb') };
  await assert.rejects(target.offer(OFFER, as), { name: 'PeerError', code: 'refused' });
  assert.equal(requests.length, 0);
});

test('who is silent again and again is left alone for a while, by offers too', async (t) => {
  const { target, requests } = await targetThatSays(t, { status: 503 });
  for (let i = 0; i < 3; i++) await assert.rejects(target.offer(OFFER, SPEAKER));
  const said = { name: 'PeerError', code: 'unreachable', message: /several times in a row/ };
  await assert.rejects(target.offer(OFFER, SPEAKER), said);
  const log = target.logs(OFFER, { timestamps: false, follow: false }, SPEAKER);
  await assert.rejects(Array.fromAsync(log), said);
  assert.equal(requests.length, 3);
});

test('a log, too, is asked for in their time when clocks are apart', async (t) => {
  const times: number[] = [];
  const { address, transport } = await listen(t, ({ headers }) => {
    times.push(Number(String(headers['x-oscar-member']).split(';')[2]));
    return times.length === 1 ? { status: 401 } : { status: 200, text: 'printed' };
  });
  const connection = new PeerConnection(address, transport, { now: () => Date.now() - 3_600_000 });
  const log = new HttpTarget(address, connection).logs(OFFER, { timestamps: true, follow: false }, SPEAKER);
  assert.equal(Buffer.concat(await Array.fromAsync(log)).toString(), 'printed');
  const [first = 0, second = 0] = times;
  assert.ok(second - first > 3_500_000);
});

const ATTEMPT = { job: JOB, epoch: 3 };

const told: [Said | undefined, string, string][] = [
  [{ status: 409, json: { code: 'fenced' } }, 'DelegationError', 'fenced'],
  [{ status: 409 }, 'DelegationError', 'fenced'],
  [{ status: 404, json: { code: 'job-gone' } }, 'DelegationError', 'job-gone'],
  [{ status: 410 }, 'FederationError', 'federation-gone'],
  // Any server says so about a path that it does not know: no run is ended for that.
  [{ status: 404 }, 'PeerError', 'unreachable'],
  [{ status: 404, json: { error: 'not found' } }, 'PeerError', 'unreachable'],
  [{ status: 404, text: '<html>' }, 'PeerError', 'unreachable'],
  [{ status: 401, json: { code: 'bad-signature' } }, 'PeerError', 'refused'],
  [{ status: 503 }, 'PeerError', 'unreachable'],
  [{ status: 500 }, 'PeerError', 'failed'],
  [{ status: 200, json: {} }, 'PeerError', 'unreachable'],
  [undefined, 'PeerError', 'unreachable'],
];
for (const [said, name, code] of told) {
  test(`${JSON.stringify(said) ?? 'no answer'} of an origin is "${code}"`, async (t) => {
    const { address, connection } = await listen(t, () => said);
    const deadlines = { permit: 100, report: 100, open: 100 };
    const origin = new HttpOrigin(address, connection, said ? ORIGIN_DEADLINES : deadlines);
    await assert.rejects(origin.permit(ATTEMPT, SPEAKER), { name, code });
    await assert.rejects(origin.report(ATTEMPT, { state: 'running' }, SPEAKER), { name, code });
  });
}

test('what an origin is asked goes out like this', async (t) => {
  const { address, connection, requests } = await listen(t, ({ url }) => ({
    status: url.endsWith('jobs') ? 201 : 204,
  }));
  const origin = new HttpOrigin(address, connection);
  await assert.rejects(origin.permit(ATTEMPT, SPEAKER));
  await origin.report(ATTEMPT, { state: 'released', reason: 'NoRoom', message: 'none' }, SPEAKER);
  await origin.open({ job: JOB, event: Buffer.from('e'), invoker: 'alice' }, SPEAKER);
  assert.deepEqual(
    requests.map(({ method, url, body }) => [`${method} ${url}`, body]),
    [
      ['GET /system/config?job=cow/cow-1&epoch=3', ''],
      ['POST /system/federation/cow/jobs/cow-1/attempts/3', '{"state":"released","reason":"NoRoom","message":"none"}'],
      ['POST /system/federation/cow/jobs', '{"id":"cow-1","event":"e","invoker":"alice"}'],
    ],
  );
});
