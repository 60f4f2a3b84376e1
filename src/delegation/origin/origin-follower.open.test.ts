import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { ALICE, ISSUER, idOf, OTHER_ISSUER, openScene, type Scene } from './origin.fixture.ts';

const entered = (id = `demo-${randomUUID()}`, event = 'data') => ({
  job: { service: 'demo', id },
  event: Buffer.from(event),
  invoker: 'carol-0003',
  issuer: ISSUER,
});

const open = async (scene: Scene, job: ReturnType<typeof entered>, id = 'b') =>
  scene.manager.current.delegator.open(job, await scene.proof(id));

test('open: a job that entered at a worker is a job of the coordinator with the rights of the token, and is offered to that worker', async () => {
  await using scene = await openScene();
  const given = entered();
  await open(scene, given);
  const record = await scene.until(given.job, ({ state }) => state === 'delegated');
  const { principal, byToken, trigger, openedBy, invoker, placement } = record;
  assert.deepEqual(
    { principal, byToken, trigger, openedBy, invoker, member: placement?.member },
    { principal: ALICE, byToken: true, trigger: 'job', openedBy: idOf('b'), invoker: 'carol-0003', member: idOf('b') },
  );
});

const callers = [
  { name: 'of the first issuer', issuer: ISSUER, invoker: 'carol-0003' },
  { name: 'of another issuer', issuer: OTHER_ISSUER, invoker: 'other~carol-0003' },
  { name: 'of an issuer that this cluster does not know', issuer: 'https://unknown.example.org', invoker: '' },
  { name: 'of an issuer that the member does not name', issuer: undefined, invoker: '' },
];
for (const { name, issuer, invoker } of callers) {
  test(`open: a caller ${name} is recorded as "${invoker}"`, async () => {
    await using scene = await openScene();
    const { issuer: _, ...given } = entered();
    await scene.manager.current.delegator.open({ ...given, ...(issuer && { issuer }) }, await scene.proof('b'));
    assert.equal((await scene.until(given.job, () => true)).invoker, invoker);
  });
}

test('open: a member cannot name a user of another issuer with the alias of that issuer', async () => {
  await using scene = await openScene();
  const given = { ...entered(), invoker: 'other~carol-0003' };
  await open(scene, given);
  assert.equal((await scene.until(given.job, () => true)).invoker, '');
});

test('open: a repeated request creates no second job', async () => {
  await using scene = await openScene();
  const given = entered();
  await Promise.all([open(scene, given), open(scene, given)]);
  await open(scene, given);
  await scene.until(given.job, ({ state }) => state === 'delegated');
  assert.equal(scene.target('b').offers.length, 1);
});

test('open: another event or another member with the same id is rejected', async () => {
  await using scene = await openScene();
  const given = entered();
  await open(scene, given);
  await assert.rejects(open(scene, entered(given.job.id, 'other')), { code: 'payload-differs' });
  await assert.rejects(open(scene, given, 'c'), { code: 'payload-differs' });
  const own = await scene.submit('data');
  await assert.rejects(open(scene, entered(own.id)), { code: 'payload-differs' });
});

for (const id of [
  'demo',
  'other-6f1c2a4e-0000-4000-8000-000000000001',
  'demo-1',
  'demo-6F1C2A4E-0000-4000-8000-000000000001',
  '../x',
]) {
  test(`open: the id "${id}" is rejected`, async () => {
    await using scene = await openScene();
    await assert.rejects(open(scene, entered(id)), { code: 'offer-not-allowed' });
  });
}

test('open: an event that is too large is rejected', async () => {
  await using scene = await openScene();
  await assert.rejects(open(scene, entered(undefined, 'x'.repeat(1025))), { code: 'event-too-large' });
});

test('open: a leaving member is rejected', async () => {
  await using scene = await openScene();
  await scene.changeLedger((ledger) => ({
    ...ledger,
    members: ledger.members.map((each) => ({ ...each, state: 'leaving' })),
  }));
  await assert.rejects(open(scene, entered()), { code: 'offer-not-allowed' });
});

test('open: a member opens a bounded number of jobs, other members are not affected, and each job is audited', async () => {
  const opened: string[] = [];
  const onOpened = ({ member, claimedInvoker }: { member: string; claimedInvoker: string }) =>
    void opened.push(`${member} ${claimedInvoker}`);
  await using scene = await openScene({ deps: { onOpened } });
  const given = entered();
  let refused: unknown;
  // A repeated request counts too, so that one job is enough here.
  for (let n = 0; n < 5_000 && !refused; n++) refused = await open(scene, given).catch((error: unknown) => error);
  assert.equal((refused as { code?: string }).code, 'offer-no-room');
  await open(scene, entered(), 'c');
  assert.deepEqual(new Set(opened), new Set([`${idOf('b')} carol-0003`, `${idOf('c')} carol-0003`]));
});
