import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeJob } from '../../jobs/index.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { LeaseWatch } from './lease-watch.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';
import type { OriginDeps } from './origin.ts';
import { RemoteAttempts } from './remote-attempts.ts';

/** A job that a member has accepted and reported about. */
async function heard(scene: Scene, id: string): Promise<JobKey> {
  const others = ['b', 'c'].filter((each) => each !== id);
  for (const other of others) scene.target(other).plays = [{ refuse: 'no-room' }];
  scene.target(id).plays = ['take'];
  scene.fill();
  const key = await scene.submit();
  await eventually(() => assert.ok(scene.target(id).taken.size > 0));
  await scene.target(id).says({ state: 'running', startedAt: scene.clock.now() });
  return key;
}

/** Starts a lease watch that checks only when the test calls it, and stops the manager's own. */
async function watching(scene: Scene, keys: JobKey[], more: Partial<OriginDeps> = {}) {
  const { deps, delegator } = scene.manager.current;
  delegator.stop();
  const held = new RemoteAttempts();
  const back: [string, string][] = [];
  for (const key of keys) held.note(await scene.job(key));
  const watch = new LeaseWatch({
    ...deps,
    ...more,
    attempts: held,
    onExpired: ({ id }, member) => back.push([id, member]),
  });
  watch.start();
  return { watch, back, held };
}

const stateOf = async (scene: Scene, key: JobKey): Promise<JobRecord['state']> => (await scene.job(key)).state;

test('lease: a member that is silent for longer than lease and grace loses the job', async () => {
  await using scene = await openScene();
  const key = await heard(scene, 'b');
  const { watch, back } = await watching(scene, [key]);
  scene.clock.pass(150_000);
  await watch.check();
  assert.equal(await stateOf(scene, key), 'delegated');
  scene.clock.pass(1_000);
  await watch.check();
  const record = await scene.job(key);
  assert.deepEqual(
    [record.state, record.epoch, record.message],
    ['queued', 1, `no report from ${idOf('b')} for 151 s`],
  );
  assert.deepEqual(back, [[key.id, idOf('b')]]);
  watch.stop();
});

test('lease: leases count from the start of this manager, because no report could reach it before', async () => {
  await using scene = await openScene();
  const key = await heard(scene, 'b');
  scene.manager.current.delegator.stop();
  scene.clock.pass(3_600_000);
  const { watch } = await watching(scene, [key]);
  scene.clock.pass(150_000);
  await watch.check();
  assert.equal(await stateOf(scene, key), 'delegated');
  scene.clock.pass(1_000);
  await watch.check();
  assert.equal(await stateOf(scene, key), 'queued');
  watch.stop();
});

test('lease: when all members fall silent at once, they keep their jobs for longer', async () => {
  await using scene = await openScene();
  const [first, second] = [await heard(scene, 'b'), await heard(scene, 'c')];
  const { watch } = await watching(scene, [first, second]);
  scene.clock.pass(600_000);
  await watch.check();
  assert.deepEqual([await stateOf(scene, first), await stateOf(scene, second)], ['delegated', 'delegated']);
  scene.clock.pass(151_000);
  await watch.check();
  assert.deepEqual([await stateOf(scene, first), await stateOf(scene, second)], ['queued', 'queued']);
  watch.stop();
});

test('lease: two silent members of one cluster do not extend leases', async () => {
  await using scene = await openScene();
  const keys = [await heard(scene, 'b'), await heard(scene, 'c')];
  await scene.changeLedger((ledger) => ({
    ...ledger,
    members: ledger.members.map((each) => ({ ...each, endpoint: 'https://one.example' })),
  }));
  const { watch } = await watching(scene, keys);
  scene.clock.pass(151_000);
  await watch.check();
  assert.deepEqual(await Promise.all(keys.map((key) => stateOf(scene, key))), ['queued', 'queued']);
  watch.stop();
});

test('lease: a report that arrives during a check counts', async () => {
  await using scene = await openScene();
  const key = await heard(scene, 'b');
  const { watch } = await watching(scene, [key]);
  scene.clock.pass(200_000);
  await scene.target('b').says({ state: 'running' });
  await watch.check();
  assert.equal(await stateOf(scene, key), 'delegated');
  watch.stop();
});

test('lease: a former member loses its job at once', async () => {
  await using scene = await openScene();
  const key = await heard(scene, 'b');
  const { deps } = scene.manager.current;
  let left: string | undefined;
  const federations = {
    get: async (name: string) => {
      const federation = await deps.federations.get(name);
      return federation && { ...federation, members: federation.members.filter(({ id }) => id !== left) };
    },
  };
  const { watch, back } = await watching(scene, [key], { federations });
  await watch.check();
  assert.equal(await stateOf(scene, key), 'delegated');
  left = idOf('b');
  await watch.check();
  const record = await scene.job(key);
  assert.deepEqual(
    [record.state, record.timeline.at(-1)?.reason, record.message],
    ['queued', 'MemberGone', `${idOf('b')} is no longer a member`],
  );
  assert.deepEqual(back, [[key.id, idOf('b')]]);
  watch.stop();
});

test('lease: a job that another manager took back and did not offer again is offered', async () => {
  await using scene = await openScene();
  const key = await heard(scene, 'b');
  const { watch, back, held } = await watching(scene, [key]);
  await changeJob(key, scene.manager.current.deps.store, () => ({ state: 'queued' }));
  scene.clock.pass(151_000);
  await watch.check();
  // The timer of the watch may have fired too; a second check is harmless.
  assert.ok(back.length > 0);
  assert.ok(back.every(([id, member]) => id === key.id && member === idOf('b')));
  assert.deepEqual(held.delegated(), []);
});
