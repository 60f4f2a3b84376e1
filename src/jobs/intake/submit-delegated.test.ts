import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Principal, User } from '../../identity/index.ts';
import { Secret } from '../../lib/secret.ts';
import { eventJobName } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import type { UpstreamOrigins } from '../attempt/store-access.ts';
import { ALICE, BOB, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { removeServiceJobs } from '../scheduler/end.ts';
import { findJob } from '../views/find.ts';
import { submitEvent } from './storage-events.ts';
import { submitJob } from './submit.ts';
import { submitDelegated } from './submit-delegated.ts';

const user = (uid: string): User => ({ kind: 'user', uid, name: uid, groups: [], operator: false });
const [alice, bob] = [user(ALICE), user(BOB)];
const token = { kind: 'service-token', service: 'demo' } as const;
const SHARED = { visibility: 'restricted', allowed_users: [BOB] };

interface Sent {
  readonly as?: Principal;
  readonly event?: string;
  readonly from?: string;
}

function send(jobs: TestJobs, to: ServiceRecord, id: string, { as = alice, event = '{}', from = 'a' }: Sent = {}) {
  return submitDelegated(as, to, Buffer.from(event), { id, from }, jobs);
}

const count = async (jobs: TestJobs) => (await Array.fromAsync(jobs.store.unfinished())).length;

test('Go delegation: the job has the given id and the rights of the caller', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', SHARED);
  const id = `cow-${randomUUID()}`;
  assert.deepEqual(await send(jobs, service, id, { as: bob }), { service: 'demo', id });
  const { principal, invoker, trigger, byToken, delegatedFrom } = await findJob(bob, 'demo', id, jobs);
  assert.deepEqual([principal, invoker, trigger, byToken, delegatedFrom], [BOB, BOB, 'job', false, 'a']);
});

test('Go delegation: repeated requests of one caller are one job, also concurrent ones (F13)', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', SHARED);
  for (const as of [alice, token]) {
    const id = `cow-${randomUUID()}`;
    const before = await count(jobs);
    const keys = await Promise.all(Array.from({ length: 5 }, () => send(jobs, service, id, { as })));
    // Who it says to be proves nothing, and may be left out.
    keys.push(await send(jobs, service, id, { as, from: '' }));
    assert.deepEqual(new Set(keys.map((key) => key.id)), new Set([id]));
    assert.equal(await count(jobs), before + 1);
  }
});

test('Go delegation: an id that is taken is rejected for another caller or another event', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', SHARED);
  const own = await submitJob(alice, service, Buffer.from('{}'), 'job', jobs);
  await send(jobs, service, 'of-alice');
  for (const [why, call] of [
    ['another user', () => send(jobs, service, 'of-alice', { as: bob })],
    ['the token', () => send(jobs, service, 'of-alice', { as: token })],
    ['another event', () => send(jobs, service, 'of-alice', { event: '{"another":1}' })],
    ['a job that began here', () => send(jobs, service, own.id)],
  ] as const) {
    await assert.rejects(call(), { code: 'job-id-taken' }, why);
  }
  await assert.rejects(findJob(bob, 'demo', 'of-alice', jobs), { code: 'job-not-found' });
  assert.equal(await count(jobs), 2);
});

test('Go delegation: of two concurrent callers with one id, one is rejected', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', SHARED);
  const both = await Promise.allSettled([send(jobs, service, 'x'), send(jobs, service, 'x', { as: bob })]);
  assert.deepEqual(both.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
});

test('Go delegation: jobs of two services with one id run separately', async () => {
  await using jobs = await openJobs(2000);
  const victim = await submitJob(alice, await jobs.service('demo'), Buffer.from('{}'), 'job', jobs);
  await eventually(() => assert.ok(jobs.runner.attempts.has(victim.id)));
  const mine = await jobs.service('mine', {}, BOB);
  const key = await send(jobs, mine, victim.id, { as: bob });
  const record = await jobs.until(key, 'running');
  const [attempt] = record.attempts;
  assert.ok(attempt && attempt.name !== victim.id);
  await jobs.scheduler.cancel(key, 'cancelled');
  await jobs.until(key, 'cancelled');
  assert.equal(jobs.runner.attempts.get(victim.id)?.seen.phase, 'running');
});

test('Go delegation: a caller cannot take the id of a storage event', async () => {
  await using jobs = await openJobs();
  const input = [{ storage_provider: 'minio.default', path: 'inbox/uploads' }];
  const service = await jobs.service('demo', { ...SHARED, input });
  const event = { bucket: 'inbox', key: 'uploads/a', eTag: 'e', bytes: 1, modifiedAt: 5, principal: ALICE };
  const id = eventJobName({ uid: service.service.uid, name: 'demo' }, event);
  await assert.rejects(send(jobs, service, id, { as: bob }), { code: 'invalid-job-id' });
  await submitEvent(event, Buffer.from('{}'), jobs);
  assert.equal((await jobs.store.get({ service: 'demo', id }))?.trigger, 'storage');
});

const LEGAL = ['a', 'a1', 'a--b', 'x'.repeat(63), `demo-${randomUUID()}`];
const ILLEGAL = ['-a', 'a-', 'A', 'a.b', 'a_b', 'a/b', '../a', 'ä', 'a b', 'a\n', 'x'.repeat(64), ''];

test('Go delegation: an id must be legal in paths and names of pods', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  for (const id of LEGAL) assert.equal((await send(jobs, service, id)).id, id);
  for (const id of ILLEGAL) {
    await assert.rejects(send(jobs, service, id), { code: 'invalid-job-id', message: /63 small letters/ }, id);
  }
  assert.equal(await count(jobs), LEGAL.length);
});

test('Go delegation: an event that is too large is rejected, and no job is stored', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo');
  await assert.rejects(send(jobs, service, 'x', { event: 'x'.repeat(1025) }), { code: 'event-too-large' });
  assert.equal(await count(jobs), 0);
});

/** A cluster whose manager is written in Go, where everybody has keys. */
const origins: UpstreamOrigins = {
  async storeOf(clusterId, bearer) {
    if (clusterId !== 'go' || !bearer) return undefined;
    const [accessKey, secretKey] = [bearer, new Secret('s')];
    const address = { endpoint: 'http://go.example', region: 'r', verify: true, guarded: false };
    return { type: 's3', ...address, accessKey, secretKey };
  },
  async proveReadable() {},
};

const fromGo = (jobs: TestJobs, to: ServiceRecord, id: string, as: User = alice) =>
  submitDelegated(as, to, Buffer.from('{}'), { id, from: 'go', bearer: new Secret(`of ${as.uid}`) }, jobs, origins);

const keptKeys = async ({ secrets }: TestJobs) => (await secrets.keys('job')).items;

test("Go delegation: the keys for the origin's store are those of the caller, survive a restart, and are removed with the job", async () => {
  await using first = await openJobs();
  const service = await first.service('demo', { ...SHARED, output: [{ storage_provider: 'minio', path: 'out/r' }] });
  const key = await fromGo(first, service, 'of-alice');
  await assert.rejects(fromGo(first, service, 'of-alice', bob), { code: 'job-id-taken' });
  assert.deepEqual(await keptKeys(first), [`demo/of-alice/${ALICE}`]);
  const name = (await first.until(key, 'running')).attempts.at(-1)?.name ?? '';
  const jobs = await first.restarted();
  const run = await eventually(() => jobs.runner.attempts.get(name) ?? assert.fail('it was not taken up'));
  const access = (await run.attempt.stores()).get('minio.default');
  assert.ok(access?.type === 's3');
  assert.deepEqual([access.endpoint, access.accessKey.reveal()], ['http://go.example', `of ${ALICE}`]);
  assert.equal(jobs.buckets.issued.size, 0, 'none for our own store');
  jobs.runner.end(name, { outcome: 'succeeded', reason: 'Completed', message: '' });
  await jobs.until(key, 'succeeded');
  await eventually(async () => assert.deepEqual(await keptKeys(jobs), []));
  jobs.scheduler.stop();
});

test('Go delegation: the keys are also removed with a job that never started, or that is removed', async () => {
  await using jobs = await openJobs();
  const service = await jobs.service('demo', SHARED);
  await submitJob(alice, service, Buffer.from('{}'), 'job', jobs);
  const waiting = await fromGo(jobs, service, 'waiting');
  await fromGo(jobs, service, 'removed');
  await jobs.scheduler.cancel(waiting, 'cancelled');
  await eventually(async () => assert.deepEqual(await keptKeys(jobs), [`demo/removed/${ALICE}`]));
  await removeServiceJobs(service.service.uid, jobs);
  assert.deepEqual(await keptKeys(jobs), []);
});
