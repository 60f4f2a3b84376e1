import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { type HoldingStore, holdingStore } from '../../jobs/holding-store.fixture.ts';
import { ALICE, BOB } from '../../jobs/jobs.fixture.ts';
import type { JobKey } from '../../model/job/index.ts';
import { DelegationError, FederationError } from '../../peers/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { StoreError } from '../../ports/index.ts';
import { MEMBER, offered, openTarget } from './target.fixture.ts';

const PHOTO = { bucket: 'inputs', key: 'in/photo.jpg' };

test('accept: an offer is on disk when it is answered, and runs as a job of the worker', async (t) => {
  const target = await openTarget(t);
  target.origin.input = PHOTO;
  const { attempt, repeated } = await target.offer({ trigger: 'storage' });
  assert.match(attempt, /^calf-[0-9a-f-]{36}$/);
  assert.equal(repeated, false);
  const record = await target.until(attempt, 'running');
  assert.deepEqual(
    [record.owner, record.principal, record.invoker, record.trigger, record.byToken, record.serviceUid],
    [ALICE, ALICE, '', 'storage', true, target.service.uid],
  );
  const { job, epoch } = offered();
  assert.deepEqual(record.taken, {
    uid: 'federation-1',
    member: MEMBER,
    origin: target.service.federation.origin.clusterId,
    job,
    epoch,
    payload: hash('sha256', 'moo'),
    files: {
      input: PHOTO,
      staging: {
        bucket: 'outputs',
        prefix: 'allowed/cow/cow-1/1/files/',
        manifest: 'allowed/cow/cow-1/1/manifest.json',
      },
    },
  });
  await eventually(() => assert.ok(target.runner.attempts.has(attempt)));
});

test('accept: a repeated offer is the same attempt, and needs no permit', async (t) => {
  const target = await openTarget(t);
  const first = await target.offer();
  const asked = target.origin.permits.length;
  target.origin.silent = true;
  assert.deepEqual(await target.offer(), { attempt: first.attempt, repeated: true });
  assert.equal(target.origin.permits.length, asked);
  assert.equal(target.capacity.taken, 1000);
});

test('accept: two concurrent copies of an offer are accepted once, with the same answer', async (t) => {
  const target = await openTarget(t);
  const gate = Promise.withResolvers<void>();
  target.origin.gate = gate.promise;
  const both = [target.offer(), target.offer()];
  await eventually(() => assert.equal(target.origin.permits.length, 1));
  gate.resolve();
  const [one, two] = await Promise.all(both);
  assert.deepEqual([one?.attempt, one?.repeated, two?.repeated], [two?.attempt, false, true]);
  await eventually(() => assert.equal(target.runner.attempts.get(one?.attempt ?? '')?.starts, 1));
});

test('accept: a job that was stored before a failure runs when it is offered again', async (t) => {
  const target = await openTarget(t);
  const store = target.cluster.jobs;
  const accept = store.accept.bind(store);
  t.mock.method(
    store,
    'accept',
    async (...job: Parameters<typeof accept>) => {
      await accept(...job);
      throw new StoreError('unavailable', 'the disk did not answer');
    },
    { times: 1 },
  );
  await assert.rejects(target.offer(), { code: 'unavailable' });
  assert.equal(target.capacity.taken, 0);
  const { attempt, repeated } = await target.offer();
  assert.equal(repeated, true);
  await target.until(attempt, 'running');
});

test('accept: the same job and epoch with another event is rejected, and the first stays', async (t) => {
  const target = await openTarget(t);
  const { attempt } = await target.offer();
  await assert.rejects(target.offer({ event: Buffer.from('other') }), { code: 'payload-differs' });
  assert.equal((await target.get(attempt))?.taken?.payload, hash('sha256', 'moo'));
});

test('accept: another epoch or another job is another attempt', async (t) => {
  const target = await openTarget(t, { cpu: 3000 });
  const names = [
    await target.offer(),
    await target.offer({ epoch: 2 }),
    await target.offer({ job: { service: 'cow', id: 'cow-2' } }),
  ].map(({ attempt }) => attempt);
  assert.equal(new Set(names).size, 3);
});

const refusals = [
  { name: 'an input that is not there', input: { bucket: 'inputs', key: 'in/none' }, code: 'input-unreadable' },
  { name: 'an input in a bucket that is not there', input: { bucket: 'none', key: 'x' }, code: 'input-unreadable' },
  { name: 'a fence', over: new DelegationError('fenced', 'no'), code: 'fenced' },
  { name: 'a job that its origin does not know', over: new DelegationError('job-gone', 'no'), code: 'job-gone' },
  { name: 'a federation that is gone', over: new FederationError('federation-gone', 'no'), code: 'federation-gone' },
  { name: 'an origin that does not answer', silent: true, code: 'origin-silent' },
];
for (const { name, input, over, silent = false, code } of refusals) {
  test(`accept: rejected for ${name}: nothing is stored, and the capacity is free`, async (t) => {
    const target = await openTarget(t);
    Object.assign(target.origin, { input, over, silent });
    await assert.rejects(target.offer(), { code });
    const { items } = await target.cluster.jobs.list({ service: 'calf', limit: 10 });
    assert.deepEqual([items.length, target.capacity.taken, target.dispatcher.waiting], [0, 0, 0]);
    Object.assign(target.origin, { input: undefined, over: undefined, silent: false });
    assert.equal((await target.offer()).repeated, false, 'and it can be offered again');
  });
}

test("accept: a target that cannot reach the origin's store rejects a job without input too", async (t) => {
  const target = await openTarget(t);
  target.origin.store = { ...target.origin.store, endpoint: 'http://127.0.0.1:1' };
  await assert.rejects(target.offer(), { code: 'input-unreadable' });
  assert.equal(target.capacity.taken, 0);
});

test('accept: a store that the operator does not trust is not connected to if its address is not public', async (t) => {
  const target = await openTarget(t, { parts: { stores: { registered: new Map(), isOwn: () => false, own: [] } } });
  target.origin.input = PHOTO;
  await assert.rejects(target.offer(), { code: 'input-unreadable', message: /OSCAR_PEER_NETWORKS/ });
});

test('accept: without free capacity an offer is rejected at once, without a permit request', async (t) => {
  const target = await openTarget(t, { cpu: 1000 });
  await target.offer();
  const asked = target.origin.permits.length;
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  assert.deepEqual([target.origin.permits.length, target.capacity.taken], [asked, 1000]);
});

test('accept: an offer that fits does not overtake a job that waits for more capacity', async (t) => {
  const target = await openTarget(t, { cpu: 2000 });
  await target.offer();
  target.dispatcher.enqueue({ service: 'ox', id: 'ox-1', owner: BOB, demand: { cpu: 1500, memory: 0, gpu: 0 } });
  assert.equal(target.dispatcher.waiting, 1);
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  assert.equal(target.capacity.taken, 1000);
});

test('quota: an offer whose owner has no quota left is rejected at once, unless it is pinned', async (t) => {
  const quotas = { reserve: () => 'the quota of its owner does not suffice', release: () => undefined };
  const target = await openTarget(t, { parts: { quotas } });
  await assert.rejects(target.offer(), { code: 'offer-no-room', message: /quota of its owner/ });
  assert.deepEqual([target.origin.permits.length, target.capacity.taken], [0, 0]);
  const { attempt } = await target.offer({ pinned: true });
  await target.until(attempt, 'running');
});

test("quota: concurrent offers are accepted up to the owner's quota, and a failed one releases its reservation", async (t) => {
  const kept = new Set<string>();
  const quotas = {
    reserve: ({ id }: JobKey) => (kept.size === 0 ? void kept.add(id) : 'the quota of its owner does not suffice'),
    release: ({ id }: JobKey) => void kept.delete(id),
  };
  const target = await openTarget(t, { cpu: 9000, parts: { quotas } });
  target.origin.silent = true;
  await assert.rejects(target.offer(), { code: 'origin-silent' });
  assert.equal(kept.size, 0);
  target.origin.silent = false;
  const answers = await Promise.allSettled([target.offer({ epoch: 2 }), target.offer({ epoch: 3 })]);
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
  assert.equal(kept.size, 1);
});

test('quota: an offer without free capacity releases its quota', async (t) => {
  const kept = new Set<string>();
  const quotas = {
    reserve: ({ id }: JobKey) => void kept.add(id),
    release: ({ id }: JobKey) => void kept.delete(id),
  };
  const target = await openTarget(t, { cpu: 1000, parts: { quotas } });
  const { attempt } = await target.offer();
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  assert.deepEqual([...kept], [attempt]);
});

test('accept: a suspended job reserves no capacity, is reported as waiting, and runs when it is admitted', async (t) => {
  let holding: HoldingStore | undefined;
  const target = await openTarget(t, { store: (store) => (holding = holdingStore(store)) });
  const { attempt } = await target.offer();
  const waits = () => target.origin.reports.some(({ report }) => report.message === 'waits for its queue');
  await eventually(() => assert.ok(waits()));
  assert.equal(target.capacity.taken, 0);
  await holding?.letIn(target.key(attempt));
  target.dispatcher.onChanged((await target.get(attempt)) ?? assert.fail());
  await target.until(attempt, 'running');
});

test('accept: a job that no node can ever run is rejected even if it is pinned', async (t) => {
  const target = await openTarget(t, { cpu: 500 });
  await assert.rejects(target.offer({ pinned: true }), { code: 'offer-no-room', message: /it needs 1000/ });
});

test('pinned: a pinned job waits in the queue, other offers are rejected meanwhile, and then it runs', async (t) => {
  const target = await openTarget(t, { cpu: 1500, definition: { cpu: '1' } });
  const first = await target.offer();
  const second = await target.offer({ epoch: 2, pinned: true });
  await eventually(() => assert.equal(target.dispatcher.waiting, 1));
  await assert.rejects(target.offer({ epoch: 3 }), { code: 'offer-no-room' });
  await eventually(() => target.runner.end(first.attempt, { manifest: 'm' }));
  await target.until(second.attempt, 'running');
});

test('pinned: a queued job is reported to its origin, and leaves the queue when the origin no longer wants it', async (t) => {
  const target = await openTarget(t);
  await target.offer();
  const { attempt } = await target.offer({ epoch: 2, pinned: true });
  await eventually(() => assert.ok(target.origin.reports.some(({ attempt: { epoch } }) => epoch === 2)));
  const { report } = target.origin.reports.find(({ attempt: { epoch } }) => epoch === 2) ?? {};
  assert.deepEqual(report, { state: 'running', message: 'waits for room' });
  target.origin.fences = true;
  await target.until(attempt, 'cancelled');
  await eventually(() => assert.equal(target.dispatcher.waiting, 0));
});

test('accept: an offer for a service that is not a worker of the federation is rejected', async (t) => {
  const target = await openTarget(t);
  const { federation: _, ...plain } = target.worker.service;
  for (const from of [
    { ...target.from, uid: 'another' },
    { ...target.from, worker: { ...target.worker, service: plain } },
  ]) {
    await assert.rejects(target.taken.offer(offered(), from), { code: 'offer-not-allowed' });
  }
});

test('queue: with the consent of its origin an offer waits for room, twice as many as run, and further ones are rejected', async (t) => {
  const target = await openTarget(t, { cpu: 1000, definition: { cpu: '1' } });
  const first = await target.offer();
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  // At the same moment: each must count although it is not in the queue yet.
  const offers = [3, 4, 5, 6].map((epoch) => target.offer({ epoch, queue: true }));
  const outcomes = await Promise.allSettled(offers);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected', 'rejected'],
  );
  await eventually(() => assert.equal(target.dispatcher.waiting, 2));
  const { queue, freeCpu } = await target.taken.status(target.from);
  assert.deepEqual([queue, freeCpu], [0, 0]);
  await eventually(() => target.runner.end(first.attempt, { manifest: 'm' }));
  const [next] = outcomes;
  assert.ok(next?.status === 'fulfilled');
  await target.until(next.value.attempt, 'running');
});

test('queue: an idle target lets no job wait', async (t) => {
  const target = await openTarget(t, { cpu: 1000, definition: { cpu: '1' } });
  target.capacity.reserve('another', { cpu: 1000, memory: 0, gpu: 0 });
  await assert.rejects(target.offer({ queue: true }), { code: 'offer-no-room' });
});

test('room: the figures for an origin leave its unanswered offers to it, and their serial grows', async (t) => {
  const target = await openTarget(t, { cpu: 1500, definition: { cpu: '1', memory: '1Mi' } });
  const gate = Promise.withResolvers<void>();
  target.origin.gate = gate.promise;
  const offer = target.offer();
  await eventually(() => assert.equal(target.origin.permits.length, 1));
  const before = await target.taken.status(target.from);
  assert.deepEqual([before.freeCpu, before.considering?.cpu], [500, 1000]);
  gate.resolve();
  await offer;
  const after = await target.taken.status(target.from);
  assert.deepEqual([after.freeCpu, after.considering], [500, undefined]);
  assert.ok((after.serial ?? 0) > (before.serial ?? Infinity));
});

test('room: every report tells it, and the end of a job tells that its room is free', async (t) => {
  const target = await openTarget(t, { cpu: 1000, definition: { cpu: '1' } });
  const { attempt } = await target.offer();
  await eventually(() => assert.equal(target.origin.rooms.length, 1));
  assert.equal(target.origin.rooms[0]?.freeCpu, 0);
  target.runner.end(attempt, { manifest: 'a'.repeat(64) });
  await target.until(attempt, 'succeeded');
  assert.equal(target.origin.rooms.at(-1)?.freeCpu, 1000);
});
