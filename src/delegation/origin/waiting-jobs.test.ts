import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Snapshot } from '../../model/cluster-snapshot.ts';
import type { JobKey, JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';
import { failure, type ScriptedTarget } from './scripted-target.fixture.ts';

// The clock stands still in these tests unless they advance it, so nothing here is caused by a periodic check.

const free = (cores: number): Snapshot => ({
  nodes: [{ cpu: cores * 1000, memory: 2 ** 40, gpu: 0 }],
  freeCpu: cores * 1000,
  nodeCount: 1,
  age: 0,
  roundTrip: 1,
});

const boardOf = (id: string) => `https://${id}.example`;
const isDelegated = ({ state }: JobRecord) => state === 'delegated';
const waits = (scene: Scene, key: JobKey) =>
  scene.until(key, ({ state, message }) => state === 'queued' && message.startsWith('no member could accept it'));
const attemptOf = (target: ScriptedTarget, { id }: JobKey) => {
  const attempt = [...target.taken.values()].find(({ job }) => job.id === id);
  assert.ok(attempt, `${target.member} does not have ${id}`);
  return attempt;
};

/** The origin is full, and so is its only member, which has the first job. */
async function fillAll(scene: Scene, waiting: number) {
  scene.fill();
  const b = scene.target('b');
  b.snapshot = free(1);
  b.plays = ['take', { refuse: 'no-room' }];
  const first = await scene.submit();
  await scene.until(first, isDelegated);
  // The record says `delegated` from the permit on; the member's answer to the offer arrives later.
  await eventually(() => assert.equal(scene.manager.current.board.snapshotFor(boardOf('b'))?.pending, 0));
  const others: JobKey[] = [];
  for (let count = 0; count < waiting; count++) {
    const key = await scene.submit();
    await waits(scene, key);
    others.push(key);
  }
  b.plays = ['take'];
  return { b, first, others };
}

test('waiting jobs: when a job ends at a member, the job that has waited longest is offered there at once', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const { b, first, others } = await fillAll(scene, 3);
  const [second, third, fourth] = others;
  assert.ok(second && third && fourth);
  await b.says(failure(scene.clock.now()), attemptOf(b, first));
  await scene.until(second, isDelegated);
  assert.deepEqual(
    (await Promise.all([third, fourth].map((key) => scene.job(key)))).map(({ state }) => state),
    ['queued', 'queued'],
  );
  await eventually(() => attemptOf(b, second));
  await b.says(failure(scene.clock.now()), attemptOf(b, second));
  await scene.until(third, isDelegated);
  assert.equal((await scene.job(fourth)).state, 'queued');
});

test("waiting jobs: the same if the member's snapshot still counts the ended job as used capacity", async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const { b, first, others } = await fillAll(scene, 1);
  const [second] = others;
  assert.ok(second);
  // The next snapshot shows no free capacity, because it includes the job.
  b.snapshot = free(0);
  scene.clock.pass(11_000);
  const { board } = scene.manager.current;
  await eventually(() => assert.equal(board.snapshotFor(boardOf('b'))?.freeCpu, 0));
  assert.equal(board.inFlightFor(boardOf('b')).cpu, 0);
  await waits(scene, second);
  await b.says(failure(scene.clock.now()), attemptOf(b, first));
  await scene.until(second, isDelegated);
});

test('waiting jobs: a released job frees its capacity for another job', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const { b, first, others } = await fillAll(scene, 1);
  const [second] = others;
  assert.ok(second);
  await b.says({ state: 'released', reason: 'Evicted', message: 'it had to go' }, attemptOf(b, first));
  await scene.until(second, isDelegated);
  assert.equal((await scene.job(first)).state, 'queued');
});

test("waiting jobs: as many jobs as fit into a member's free capacity are offered at the same time", async () => {
  await using scene = await openScene({ clusters: ['b'] });
  scene.fill();
  const b = scene.target('b');
  b.snapshot = free(0);
  b.plays = [{ refuse: 'no-room' }];
  const keys: JobKey[] = [];
  for (let count = 0; count < 5; count++) keys.push(await scene.submit());
  for (const key of keys) await waits(scene, key);
  await eventually(() => assert.ok(scene.manager.current.board.snapshotFor(boardOf('b'))));
  const before = b.offers.length;
  // The member answers no offer before it has got three.
  const { promise: three, resolve } = Promise.withResolvers<void>();
  const permit = b.origin?.permit.bind(b.origin);
  assert.ok(b.origin && permit);
  b.origin = {
    ...b.origin,
    async permit(attempt) {
      if (b.offers.length - before === 3) resolve();
      await three;
      return permit(attempt);
    },
  };
  b.plays = ['take'];
  b.snapshot = free(3);
  scene.clock.pass(1);
  scene.manager.current.board.onReachable(boardOf('b'));
  for (const key of keys.slice(0, 3)) await scene.until(key, isDelegated);
  for (const key of keys.slice(3)) await waits(scene, key);
  assert.equal(b.offers.length - before, 3);
});

test('waiting jobs: free capacity does not cause an offer to a member that rejected the job for another reason', async () => {
  await using scene = await openScene();
  scene.fill();
  const [b, c] = [scene.target('b'), scene.target('c')];
  b.plays = [{ refuse: 'input-unreadable' }];
  c.snapshot = free(0);
  c.plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  await waits(scene, key);
  const { board } = scene.manager.current;
  await eventually(() => assert.ok(board.snapshotFor(boardOf('c'))));
  const asked = b.offers.length;
  c.snapshot = free(1);
  c.plays = ['take'];
  scene.clock.pass(6_000);
  board.watch([{ endpoint: boardOf('c'), fetchSnapshot: () => c.status() }]);
  const record = await scene.until(key, isDelegated);
  assert.equal(record.placement?.member, idOf('c'));
  assert.equal(b.offers.length, asked);
});

test('waiting jobs: a member that answers again is offered the waiting jobs at once', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  scene.fill();
  const b = scene.target('b');
  b.plays = ['silent'];
  b.status = () => Promise.reject(new Error('away'));
  const keys = [await scene.submit(), await scene.submit()];
  for (const key of keys) await waits(scene, key);
  b.plays = ['take'];
  b.status = async () => free(4);
  scene.manager.current.board.onReachable(boardOf('b'));
  for (const key of keys) await scene.until(key, isDelegated);
});

test('waiting jobs: a pinned job is offered as soon as its member answers again', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const b = scene.target('b');
  b.plays = ['silent'];
  b.status = () => Promise.reject(new Error('away'));
  const key = await scene.submit('{}', { openedBy: idOf('b') });
  await scene.until(key, ({ message }) => message.startsWith('waits for'));
  b.plays = ['take'];
  b.status = async () => free(4);
  scene.manager.current.board.onReachable(boardOf('b'));
  await scene.until(key, isDelegated);
});

test('waiting jobs: an offer whose answer was lost is repeated as soon as the member answers again', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  scene.fill();
  const b = scene.target('b');
  b.plays = ['take-unheard', 'take'];
  const key = await scene.submit();
  await scene.until(key, isDelegated);
  const { board } = scene.manager.current;
  await eventually(() => assert.ok(board.snapshotFor(boardOf('b'))));
  await eventually(() => {
    if (b.offers.length < 2) board.onReachable(boardOf('b'));
    assert.equal(b.offers.length, 2);
  });
  assert.deepEqual([b.offers[1]?.offer.epoch, b.taken.size], [1, 1]);
});

test('room: a member tells in its reports that it has more room, and as many jobs are offered at once, without asking it', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  scene.target('b').room = { ...free(0), serial: 1 };
  const { b, first, others } = await fillAll(scene, 3);
  const [second, third, fourth] = others;
  assert.ok(second && third && fourth);
  const attempt = attemptOf(b, first);
  await b.says({ state: 'running', startedAt: 1, room: { ...free(2), serial: 2 } }, attempt);
  await scene.until(second, isDelegated);
  await scene.until(third, isDelegated);
  assert.equal((await scene.job(fourth)).state, 'queued');
});

test('room: a rejection tells how much there is, and nothing is offered until there is more', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  scene.fill();
  const b = scene.target('b');
  b.plays = [{ refuse: 'no-room' }];
  b.room = { ...free(0), serial: 1 };
  const first = await scene.submit();
  await waits(scene, first);
  const second = await scene.submit();
  await waits(scene, second);
  assert.equal(b.offers.length, 1);
});

test('queue: short jobs are offered to wait at a member, no more than end there during a turnaround', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const { b, first, others } = await fillAll(scene, 4);
  const [second] = others;
  assert.ok(second);
  const { board } = scene.manager.current;
  // Jobs of 0.1 s, offers of 0.1 s: two jobs end during the turnaround of 0.2 s.
  board.noteDuration(boardOf('b'), 'demo', 0.1);
  for (let count = 0; count < 30; count++) board.noteOffer(boardOf('b'), 0.1);
  const room = { ...free(0), serial: 1, queue: 9 };
  const asked = b.offers.length;
  await b.says({ state: 'running', startedAt: 1, room }, attemptOf(b, first));
  await scene.until(second, isDelegated);
  await eventually(() => assert.equal(b.offers.length, asked + 2));
  assert.deepEqual(
    b.offers.slice(asked).map(({ offer: { queue } }) => queue),
    [true, true],
  );
  for (const key of others.slice(2)) await waits(scene, key);
});

test('queue: long jobs wait at the origin, where any member may get them', async () => {
  await using scene = await openScene({ clusters: ['b'] });
  const { b, first } = await fillAll(scene, 2);
  const { board } = scene.manager.current;
  board.noteDuration(boardOf('b'), 'demo', 10);
  const asked = b.offers.length;
  await b.says({ state: 'running', startedAt: 1, room: { ...free(0), serial: 1, queue: 9 } }, attemptOf(b, first));
  const key = await scene.submit();
  await waits(scene, key);
  assert.equal(b.offers.length, asked);
});
