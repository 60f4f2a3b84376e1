import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALICE } from '../../jobs/jobs.fixture.ts';
import { Secret } from '../../lib/secret.ts';
import { DelegationError } from '../../peers/index.ts';
import { enterJob } from './enter.ts';
import { type Context, openTarget, type TestTarget } from './target.fixture.ts';

const INPUT = { input: [{ storage_provider: 'minio.default', path: 'inputs/in' }] };
const USER = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;
const TOKEN = { kind: 'service-token', service: 'calf' } as const;

const eventFor = (key: string) =>
  Buffer.from(
    JSON.stringify({
      Records: [
        {
          eventSource: 'minio:s3',
          eventName: 's3:ObjectCreated:Put',
          s3: { bucket: { name: 'inputs' }, object: { key, eTag: 'e', sequencer: '17B3C2D3C0A80000' } },
        },
      ],
    }),
  );

async function openWorker(t: Context) {
  const target = await openTarget(t, { definition: INPUT });
  const { origin } = target;
  const hosting = { coordinatorOf: async () => ({ origin, key: new Secret('member-key') }), maxEventBytes: 1024 };
  const enter = (principal: Parameters<typeof enterJob>[0], event: Uint8Array) =>
    enterJob(principal, target.service, event, hosting);
  return { target, enter };
}

const stored = async ({ cluster }: TestTarget) => (await cluster.jobs.list({ service: 'calf', limit: 9 })).items.length;

test("enter: a job sent to a worker is created at its coordinator, with an id of the coordinator's service", async (t) => {
  const { target, enter } = await openWorker(t);
  const { key, location } = await enter(USER, Buffer.from('moo'));
  assert.match(key.id, /^cow-[0-9a-f-]{36}$/);
  assert.equal(location, `https://origin.example/system/jobs/cow/${key.id}`);
  assert.deepEqual(target.origin.opened, [{ job: key, event: Buffer.from('moo'), invoker: ALICE }]);
  assert.notEqual((await enter(USER, Buffer.from('moo'))).key.id, key.id);
  assert.equal(await stored(target), 0);
});

test('enter: a storage event that is sent twice with the token is one job', async (t) => {
  const { target, enter } = await openWorker(t);
  const one = await enter(TOKEN, eventFor('in/a'));
  const two = await enter(TOKEN, eventFor('in/a'));
  const other = await enter(TOKEN, eventFor('in/b'));
  assert.deepEqual([one.key.id === two.key.id, one.key.id === other.key.id], [true, false]);
  assert.equal(target.origin.opened[0]?.invoker, '');
  const outside = [await enter(TOKEN, eventFor('out/a')), await enter(TOKEN, eventFor('out/a'))];
  assert.notEqual(outside[0]?.key.id, outside[1]?.key.id);
});

test('enter: if the coordinator does not answer, the error says so and nothing is stored', async (t) => {
  const { target, enter } = await openWorker(t);
  target.origin.silent = true;
  await assert.rejects(enter(USER, Buffer.from('moo')), { code: 'origin-silent', message: /try again/ });
  assert.equal(await stored(target), 0);
});

test('enter: errors of the coordinator are passed on', async (t) => {
  const { target, enter } = await openWorker(t);
  target.origin.over = new DelegationError('job-gone', 'no such service');
  await assert.rejects(enter(USER, Buffer.from('moo')), { code: 'job-gone' });
});

test('enter: an event that is too large is rejected before the coordinator is asked', async (t) => {
  const { target, enter } = await openWorker(t);
  await assert.rejects(enter(USER, Buffer.alloc(1025)), { code: 'event-too-large' });
  assert.equal(target.origin.opened.length, 0);
});
