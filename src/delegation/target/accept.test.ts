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

test('an offer is on the disk when it is answered, and runs as a job of the worker', async (t) => {
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

test('the same offer again is the same attempt, and asks the origin for nothing', async (t) => {
  const target = await openTarget(t);
  const first = await target.offer();
  const asked = target.origin.permits.length;
  target.origin.silent = true;
  assert.deepEqual(await target.offer(), { attempt: first.attempt, repeated: true });
  assert.equal(target.origin.permits.length, asked);
  assert.equal(target.capacity.taken, 1000);
});

test('the same offer twice at the same moment is taken once and answered alike', async (t) => {
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

test('an offer that was stored by a try which failed just after runs when it is offered again', async (t) => {
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

test('another event under the same offer is refused, and the first stays what it is', async (t) => {
  const target = await openTarget(t);
  const { attempt } = await target.offer();
  await assert.rejects(target.offer({ event: Buffer.from('other') }), { code: 'payload-differs' });
  assert.equal((await target.get(attempt))?.taken?.payload, hash('sha256', 'moo'));
});

test('another epoch, and another job, are other attempts', async (t) => {
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
  test(`${name} is a refusal: nothing is kept, and the room is free`, async (t) => {
    const target = await openTarget(t);
    Object.assign(target.origin, { input, over, silent });
    await assert.rejects(target.offer(), { code });
    const { items } = await target.cluster.jobs.list({ service: 'calf', limit: 10 });
    assert.deepEqual([items.length, target.capacity.taken, target.dispatcher.waiting], [0, 0, 0]);
    Object.assign(target.origin, { input: undefined, over: undefined, silent: false });
    assert.equal((await target.offer()).repeated, false, 'and it can be offered again');
  });
}

test('whoever could not hand in a result does not take a job that has no input either', async (t) => {
  const target = await openTarget(t);
  target.origin.store = { ...target.origin.store, endpoint: 'http://127.0.0.1:1' };
  await assert.rejects(target.offer(), { code: 'input-unreadable' });
  assert.equal(target.capacity.taken, 0);
});

test('a store that nobody vouches for is not dialled when its address is not public', async (t) => {
  const target = await openTarget(t, { parts: { stores: { registered: new Map(), isOwn: () => false, own: [] } } });
  target.origin.input = PHOTO;
  await assert.rejects(target.offer(), { code: 'input-unreadable', message: /OSCAR_PEER_NETWORKS/ });
});

test('without room an offer is refused at once, and nobody is asked for keys', async (t) => {
  const target = await openTarget(t, { cpu: 1000 });
  await target.offer();
  const asked = target.origin.permits.length;
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  assert.deepEqual([target.origin.permits.length, target.capacity.taken], [asked, 1000]);
});

test('an offer for which there is room does not overtake who waits here for more', async (t) => {
  const target = await openTarget(t, { cpu: 2000 });
  await target.offer();
  target.dispatcher.enqueue({ service: 'ox', id: 'ox-1', owner: BOB, demand: { cpu: 1500, memory: 0, gpu: 0 } });
  assert.equal(target.dispatcher.waiting, 1);
  await assert.rejects(target.offer({ epoch: 2 }), { code: 'offer-no-room' });
  assert.equal(target.capacity.taken, 1000);
});

test('an offer for which its owner has no quota left is refused at once, unless it may run nowhere else', async (t) => {
  const quotas = { reserve: () => 'the quota of its owner does not suffice', release: () => undefined };
  const target = await openTarget(t, { parts: { quotas } });
  await assert.rejects(target.offer(), { code: 'offer-no-room', message: /quota of its owner/ });
  assert.deepEqual([target.origin.permits.length, target.capacity.taken], [0, 0]);
  const { attempt } = await target.offer({ pinned: true });
  await target.until(attempt, 'running');
});

test('of offers that come at once no more are taken than their owner has quota for, and who fails gives it back', async (t) => {
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

test('one for which there is no room keeps no quota', async (t) => {
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

test('one that the cluster does not let start yet holds no room, says that it waits, and runs when it is let in', async (t) => {
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

test('a job that no node here could ever run is refused even when it may run nowhere else', async (t) => {
  const target = await openTarget(t, { cpu: 500 });
  await assert.rejects(target.offer({ pinned: true }), { code: 'offer-no-room', message: /it needs 1000/ });
});

test('one that may run nowhere else waits in line, others are refused while it does, and then it runs', async (t) => {
  const target = await openTarget(t, { cpu: 1500, definition: { cpu: '1' } });
  const first = await target.offer();
  const second = await target.offer({ epoch: 2, pinned: true });
  await eventually(() => assert.equal(target.dispatcher.waiting, 1));
  await assert.rejects(target.offer({ epoch: 3 }), { code: 'offer-no-room' });
  await eventually(() => target.runner.end(first.attempt, { manifest: 'm' }));
  await target.until(second.attempt, 'running');
});

test('while it waits in line its origin hears of it; when the origin does not want it any more, it leaves the line', async (t) => {
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

test('an offer in the name of somebody else than the owner of the worker is refused', async (t) => {
  const target = await openTarget(t);
  const bob = { kind: 'user', uid: BOB, name: BOB, groups: [], operator: false } as const;
  for (const principal of [bob, { kind: 'admin' } as const]) {
    const offer = target.taken.offer(offered(), { ...target.from, principal });
    await assert.rejects(offer, { code: 'offer-not-allowed' });
  }
});
