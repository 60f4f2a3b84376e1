import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene, type SceneOptions } from './origin.fixture.ts';
import { FollowedScript } from './scripted-target.fixture.ts';

const URL = 'https://any.example/take';
const GO: SceneOptions = {
  clusters: ['b', 'c'],
  upstream: ['b'],
  deps: { getOwnerToken: async () => new Secret('token') },
};

function followed(scene: Scene): FollowedScript {
  const target = scene.target('b');
  assert.ok(target instanceof FollowedScript);
  return target;
}

async function taken(scene: Scene): Promise<JobKey> {
  scene.fill();
  const key = await scene.submit();
  await scene.until(key, ({ state }) => state === 'delegated');
  return key;
}

const ended = (scene: Scene, key: JobKey) =>
  scene.passing(async () => {
    const record = await scene.job(key);
    assert.ok(record.state === 'succeeded' || record.state === 'failed');
    return record;
  }, 5_000);

test('endpoint: an answer means that the job is done', async () => {
  await using scene = await openScene({ clusters: [], endpoints: [URL] });
  scene.fill();
  const key = await scene.submit();
  const last = await scene.until(key, ({ state }) => state === 'succeeded');
  assert.deepEqual(
    last.attempts.map(({ epoch, place }) => [epoch, place]),
    [[1, 'any.example']],
  );
  assert.equal(scene.target(URL).offers[0]?.as.bearer, undefined);
});

test('endpoint: after a rejection the next member is asked', async () => {
  await using scene = await openScene({ clusters: [], endpoints: [URL] });
  scene.target(URL).plays = [{ refuse: 'failed' }];
  scene.fill();
  const key = await scene.submit();
  await scene.until(key, ({ message }) => message === `no member could accept it: ${URL}: failed`);
});

test('poller: a Go manager is polled until the job has ended', async () => {
  await using scene = await openScene(GO);
  const key = await taken(scene);
  const startedAt = scene.clock.now();
  followed(scene).states.set(key.id, { phase: 'Running', startedAt });
  await scene.passing(async () => assert.equal((await scene.job(key)).startedAt, startedAt), 5_000);
  followed(scene).states.set(key.id, { phase: 'Succeeded', startedAt, finishedAt: startedAt + 1_000 });
  const last = await ended(scene, key);
  assert.deepEqual([last.state, last.finishedAt, last.attempts.at(-1)?.place], ['succeeded', startedAt + 1_000, 'b']);
  const { asked } = followed(scene);
  scene.clock.pass(60_000);
  assert.equal(followed(scene).asked, asked);
});

test('poller: a job that failed at a Go manager has failed', async () => {
  await using scene = await openScene(GO);
  const key = await taken(scene);
  followed(scene).states.set(key.id, { phase: 'Failed' });
  assert.equal((await ended(scene, key)).state, 'failed');
});

test('poller: a Go manager has no lease, and is polled again after a restart', async () => {
  await using scene = await openScene(GO);
  const key = await taken(scene);
  followed(scene).cannotSay = true;
  scene.clock.pass(400_000);
  await scene.restart();
  scene.clock.pass(400_000);
  assert.equal((await scene.job(key)).epoch, 1);
  followed(scene).cannotSay = false;
  followed(scene).states.set(key.id, { phase: 'Succeeded' });
  assert.equal((await ended(scene, key)).state, 'succeeded');
});

test('poller: a job that a Go manager no longer lists fails after a while', async () => {
  await using scene = await openScene(GO);
  const key = await taken(scene);
  followed(scene).taken.clear();
  const last = await ended(scene, key);
  assert.equal(last.timeline.at(-1)?.reason, 'Lost');
});

test('poller: after an unanswered offer the Go manager is asked for the job; if it has none, the next member is asked', async () => {
  await using scene = await openScene(GO);
  followed(scene).plays = ['take-unheard', 'silent'];
  const first = await taken(scene);
  assert.equal((await scene.job(first)).placement?.member, idOf('b'));
  const second = await taken(scene);
  assert.equal((await scene.job(second)).placement?.member, idOf('c'));
});

test('poller: while the Go manager cannot be asked, the job stays there', async () => {
  await using scene = await openScene(GO);
  followed(scene).plays = ['silent', 'silent', 'take'];
  followed(scene).cannotSay = true;
  scene.fill();
  const key = await scene.submit();
  await scene.passing(() => assert.equal(followed(scene).offers.length, 3));
  const record = await scene.until(key, ({ state }) => state === 'delegated');
  assert.deepEqual([record.epoch, record.placement?.member], [1, idOf('b')]);
  await eventually(() => assert.equal(scene.target('c').offers.length, 0));
});
