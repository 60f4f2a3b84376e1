import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { Offer, TargetAttempt } from '../delegation-ports.ts';
import { UpstreamTarget } from '../go/upstream-target.ts';
import { EndpointTarget } from './endpoint-target.ts';
import { HttpOrigin } from './http-origin.ts';
import { HttpTarget, TARGET_DEADLINES } from './http-target.ts';
import { listen, type Said } from './listener.fixture.ts';

const SPEAKER = {
  uid: 'f6a1',
  member: 'b/cow',
  key: new Secret('0123456789abcdef'.repeat(4)),
  bearer: new Secret('alice'),
};
const JOB = { service: 'cow', id: 'cow-1' };
const AT: TargetAttempt = { job: JOB, epoch: 3, service: 'cow' };
const OFFER: Offer = { ...AT, from: 'a', event: Buffer.from('{}'), trigger: 'job', pinned: false };
const LOOPBACK = { address: '127.0.0.1', prefix: 32, family: 'ipv4' } as const;

/** More than any pool keeps. */
const TIMES = 100;
const POOL = 8;

/** Everything that is ever said to another cluster about jobs, one thing after the other. */
async function everything(t: TestContext, said: () => Said | undefined, deadline = 3_000) {
  const { endpoint, address, connection, sockets } = await listen(t, said);
  const deadlines = { ...TARGET_DEADLINES, offer: deadline, stop: deadline, status: deadline, logs: deadline };
  const target = new HttpTarget(address, connection, deadlines);
  const upstream = new UpstreamTarget({ ...address, kind: 'upstream' }, connection, deadlines);
  const origin = new HttpOrigin(address, connection, { permit: deadline, report: deadline, open: deadline });
  const any = new EndpointTarget({ url: endpoint, verify: true, headers: {}, networks: [LOOPBACK], deadline });
  t.after(() => any.close());
  const read = (log: AsyncIterable<Uint8Array>) => Array.fromAsync(log);
  const reading = { timestamps: false, follow: false };
  const talks: readonly (() => Promise<unknown>)[] = [
    () => target.offer(OFFER, SPEAKER),
    () => target.stop(AT, SPEAKER),
    () => target.status(SPEAKER),
    () => read(target.logs(AT, reading, SPEAKER)),
    () => upstream.offer(OFFER, SPEAKER),
    () => upstream.state(AT, SPEAKER),
    () => upstream.stop(AT, SPEAKER),
    () => upstream.status(SPEAKER),
    () => read(upstream.logs(AT, reading, SPEAKER)),
    () => origin.permit(AT, SPEAKER),
    () => origin.report(AT, { state: 'running' }, SPEAKER),
    () => origin.open({ job: JOB, event: Buffer.from('{}'), invoker: '' }, SPEAKER),
    () => any.offer(OFFER),
  ];
  return { talks, sockets, target };
}

const cases: [string, Said][] = [
  ['an answer that is none', { status: 200, text: 'x'.repeat(100_000) }],
  ['an answer that is too long', { status: 200, text: 'x'.repeat(400_000) }],
  ['a refusal with a page', { status: 403, text: '<html>'.repeat(10_000) }],
  ['a failure', { status: 500, text: 'oops' }],
  ['nothing at all', { status: 404 }],
  ['that it was created', { status: 201, json: { attempt: 'cow-1' } }],
];

for (const [what, said] of cases) {
  test(`however often it is answered with ${what}, no connection is left over (F11)`, async (t) => {
    const { talks, sockets } = await everything(t, () => said);
    for (const talk of talks) {
      for (let n = 0; n < TIMES / 10; n++) await talk().catch(() => undefined);
    }
    await eventually(() => assert.ok(sockets.open <= POOL, `${sockets.open} connections of ${sockets.dialled}`));
  });
}

test('what is answered as it should be goes over the connections that there are (F11)', async (t) => {
  const { target, sockets } = await everything(t, () => ({ status: 201, json: { attempt: 'cow-1' } }));
  for (let n = 0; n < TIMES; n++) await target.offer(OFFER, SPEAKER);
  assert.ok(sockets.dialled <= 2, `${sockets.dialled} connections for ${TIMES} offers`);
});

test('who never answers is hung up on (F11)', async (t) => {
  const { talks, sockets } = await everything(t, () => undefined, 20);
  for (const talk of talks) await Promise.all(Array.from({ length: 10 }, () => talk().catch(() => undefined)));
  await eventually(() => assert.ok(sockets.open <= POOL, `${sockets.open} connections of ${sockets.dialled}`));
});

test('connections: a log that is not read to its end is closed (F11)', async (t) => {
  const { target, sockets } = await everything(t, () => ({ status: 200, text: 'x'.repeat(2_000_000) }));
  for (let n = 0; n < TIMES / 5; n++) {
    const log = target.logs(AT, { timestamps: false, follow: true }, SPEAKER)[Symbol.asyncIterator]();
    await log.next();
    await log.return?.(undefined);
  }
  await eventually(() => assert.ok(sockets.open <= POOL, `${sockets.open} connections of ${sockets.dialled}`));
});
