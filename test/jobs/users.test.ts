import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ALICE, BOB } from '../support/issuer-users.ts';
import { Outside, service } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { startPeople } from '../support/people.ts';

const { issuer, alice, bob, carol, settings } = await startPeople();
let manager: TestManager;
let outside: Outside;
before(async () => {
  manager = await startTestManager(settings);
  outside = new Outside(manager.url);
});
after(async () => {
  await manager[Symbol.asyncDispose]();
  await issuer.stop();
});

const COPY = 'cp "$INPUT_FILE_PATH" "$TMP_OUTPUT_DIR"; echo printed';

/** The jobs of a service that a user is shown, in both lists. */
async function seen(as: string, name: string): Promise<string[]> {
  const old = await outside.call('GET', `/system/logs/${name}`, { as });
  if (old.status !== 200) return [String(old.status)];
  const listed = Object.keys((old.json() as { jobs: object }).jobs);
  const keys = (await outside.jobs(as, name)).map(({ id }) => id);
  assert.deepEqual(listed.toSorted(), keys.toSorted());
  return listed;
}

describe('service with isolation USER', () => {
  before(async () => {
    const more = { visibility: 'restricted', isolation_level: 'USER', allowed_users: [BOB.sub] };
    await outside.create(alice, service('iso', COPY, more));
  });
  const bobs = `iso-${BOB.sub.slice(0, 10)}`;

  test('writes the result of a user’s file to the bucket of that file, and shows the job to that user and the owner only', async () => {
    await outside.put(bob, `${bobs}/in/his.txt`, 'of Bob');
    const [job] = await outside.allEnded('iso', 1);
    assert.ok(job);
    assert.equal(job.state, 'succeeded');
    assert.equal(await outside.get(bob, `${bobs}/out/his.txt`), 'of Bob');
    assert.deepEqual(await outside.keys(alice, 'iso'), [], 'nothing in the bucket of the owner');
    await assert.rejects(outside.keys(alice, bobs), { name: 'AccessDenied' });

    await outside.put(alice, 'iso/in/hers.txt', 'of Alice');
    const both = await outside.allEnded('iso', 2);
    assert.equal(await outside.get(alice, 'iso/out/hers.txt'), 'of Alice');
    assert.deepEqual(await outside.keys(bob, bobs), ['in/his.txt', 'out/his.txt']);

    const ids = both.map(({ id }) => id);
    const of = (key: string) => both.filter(({ object }) => object?.key === key).map(({ id }) => id);
    assert.deepEqual((await seen(ADMIN, 'iso')).toSorted(), ids.toSorted());
    assert.deepEqual((await seen(alice, 'iso')).toSorted(), ids.toSorted(), 'both ran with her rights');
    assert.deepEqual(await seen(bob, 'iso'), of('in/his.txt'));
    assert.deepEqual(await seen(carol, 'iso'), ['404']);
    assert.deepEqual((await outside.job(alice, 'iso', job.id)).invoker, BOB.sub);

    const hers = of('in/hers.txt')[0];
    for (const path of [`/system/jobs/iso/${hers}`, `/system/logs/iso/${hers}`]) {
      assert.equal((await outside.call('GET', path, { as: bob })).status, 404, path);
      assert.equal((await outside.call('DELETE', path, { as: bob })).status, 404, path);
    }
    assert.match((await outside.call('GET', `/system/logs/iso/${job.id}`, { as: bob })).text, /printed\n$/);
  });
});

describe('restricted service', () => {
  before(() => outside.create(alice, service('some', COPY, { visibility: 'restricted', allowed_users: [BOB.sub] })));

  test('runs for allowed users, by upload and by call, and for no others', async () => {
    await outside.put(bob, 'some/in/x', 'of Bob');
    await assert.rejects(outside.put(carol, 'some/in/y', 'of Carol'), { name: 'AccessDenied' });
    const called = await outside.submit(bob, 'some', '{"a":1}');
    for (const path of ['/job/some', '/run/some']) {
      assert.equal((await outside.call('POST', path, { as: carol, body: 'x' })).status, 404);
    }
    const jobs = await outside.allEnded('some', 2);
    assert.deepEqual(
      jobs.map(({ state }) => state),
      ['succeeded', 'succeeded'],
    );
    assert.equal(await outside.get(alice, 'some/out/x'), 'of Bob');
    assert.equal(await outside.get(bob, 'some/out/x'), 'of Bob', 'the bucket is his too');
    assert.equal(await outside.get(bob, `some/out/event-file-${called}`), '{"a":1}');
    assert.deepEqual((await seen(bob, 'some')).toSorted(), jobs.map(({ id }) => id).toSorted());
    assert.deepEqual(await seen(carol, 'some'), ['404']);
  });
});

describe('public service', () => {
  before(() => outside.create(alice, service('open', COPY, { visibility: 'public' })));

  test('shows users their own jobs, and the owner the jobs with the owner’s rights', async () => {
    const byBob = await outside.submit(bob, 'open', 'bob');
    const byCarol = await outside.submit(carol, 'open', 'carol');
    await outside.put(carol, 'open/in/z', 'z');
    const jobs = await outside.allEnded('open', 3);
    const uploaded = jobs.find(({ trigger }) => trigger === 'storage')?.id ?? '';
    assert.deepEqual(await seen(bob, 'open'), [byBob]);
    assert.deepEqual((await seen(carol, 'open')).toSorted(), [byCarol, uploaded].toSorted());
    assert.deepEqual(await seen(alice, 'open'), [uploaded]);
    assert.equal((await outside.job(ADMIN, 'open', byBob)).invoker, BOB.sub);
  });
});

test('private service: it runs for its owner only', async () => {
  await outside.create(alice, service('own', COPY));
  await assert.rejects(outside.put(bob, 'own/in/x', 'x'), { name: 'AccessDenied' });
  assert.equal((await outside.call('POST', '/job/own', { as: bob, body: 'x' })).status, 404);
  await outside.put(alice, 'own/in/x', 'x');
  const job = await outside.onlyJob('own');
  assert.deepEqual([job.state, job.invoker], ['succeeded', ALICE.sub]);
});
