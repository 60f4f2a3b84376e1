import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { StoreError } from '../../ports/index.ts';
import { EventPump } from './event-pump.ts';
import { openScene, type Scene } from './intake.fixture.ts';

const waiting = async (scene: Scene) => (await scene.source.backlog()).events;
const allAcknowledged = (scene: Scene) => eventually(async () => assert.equal(await waiting(scene), 0));
const noAnswer = () => new StoreError('unavailable', 'no answer');

/** A store that has no answer for jobs of these keys, for as long as they are in the set. */
const failingFor = (keys: Set<string>, { jobs }: Scene) =>
  changedIn(jobs.store, {
    async accept(job, ...rest) {
      if (keys.has(job.object?.key ?? '')) throw noAnswer();
      return jobs.store.accept(job, ...rest);
    },
  });

test('event pump: each object becomes one job, also objects from before the start', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  await scene.upload('demo', 'in/before');
  const pump = scene.pump();
  pump.start();
  await allAcknowledged(scene);
  await Promise.all(Array.from({ length: 300 }, (_, i) => scene.upload('demo', `in/${i}`)));
  await allAcknowledged(scene);
  await pump.stop();
  assert.equal(new Set(await scene.ran(service)).size, 301);
  assert.equal(scene.enqueued.length, 301);
  const [record] = (await scene.jobs.store.list({ service: 'demo', limit: 1 })).items;
  assert.deepEqual(
    [record?.principal, record?.invoker, record?.trigger, record?.byToken],
    ['alice', 'bob', 'storage', false],
    'with the rights of the owner, and the name of who wrote the object',
  );
});

test('event pump: a repeated event creates no second job', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  await scene.upload('demo', 'in/a');
  const [event] = await scene.source.take(1);
  await scene.deliver();
  assert.ok(event);
  const again = changedIn(scene.source, { take: async (_limit, after = 0) => (after < event.number ? [event] : []) });
  const acknowledged: number[] = [];
  const source = changedIn(again, {
    async acknowledge(numbers) {
      acknowledged.push(...numbers);
    },
  });
  const pump = new EventPump({ source, jobs: scene.jobs, report: (problem) => scene.problems.push(problem) });
  pump.start();
  await eventually(() => assert.deepEqual(acknowledged, [event.number]));
  await pump.stop();
  assert.deepEqual(await scene.ran(service), ['in/a']);
  assert.equal(scene.enqueued.length, 1);
});

test('event pump: an event of a removed service is acknowledged', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  await scene.upload('demo', 'in/a');
  await scene.removeService(service);
  await scene.deliver();
  assert.deepEqual([await waiting(scene), scene.problems], [0, []]);
});

test('event pump: a failing event blocks no other, and succeeds later', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  const failing = new Set(['in/stuck']);
  const pump = scene.pump(failingFor(failing, scene));
  pump.start();
  await scene.upload('demo', 'in/stuck');
  await eventually(() => assert.ok(scene.problems.length > 2, 'it is tried again'));
  await scene.upload('demo', 'in/fine');
  await eventually(async () => assert.deepEqual(await scene.ran(service), ['in/fine']));
  await eventually(async () => assert.equal(await waiting(scene), 1));
  failing.clear();
  await allAcknowledged(scene);
  await pump.stop();
  assert.deepEqual(await scene.ran(service), ['in/fine', 'in/stuck']);
});

test('event pump: after an outage of the job store all events are processed', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  const keys = Array.from({ length: 600 }, (_, i) => `in/${i}`);
  const failing = new Set(keys);
  const pump = scene.pump(failingFor(failing, scene));
  await Promise.all(keys.map((key) => scene.upload('demo', key)));
  pump.start();
  await eventually(() => assert.ok(scene.problems.length > 3));
  assert.deepEqual(await scene.ran(service), []);
  failing.clear();
  await allAcknowledged(scene);
  await pump.stop();
  assert.equal(new Set(await scene.ran(service)).size, 600);
});

test('event pump: an event that hangs blocks no other', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  const { jobs, source, problems } = scene;
  const store = changedIn(jobs.store, {
    accept: (job, ...rest) =>
      job.object?.key === 'in/lost' ? new Promise(() => undefined) : jobs.store.accept(job, ...rest),
  });
  const report = (problem: unknown) => problems.push(problem);
  const pump = new EventPump({ source, jobs: { ...jobs, store }, report, wait: () => 1, deadline: 20 });
  await scene.upload('demo', 'in/lost');
  pump.start();
  await eventually(() => assert.ok(problems.length > 1));
  await scene.upload('demo', 'in/fine');
  await eventually(async () => assert.deepEqual(await scene.ran(service), ['in/fine']));
  // It is acknowledged after it was accepted, and not at once on a machine that misses the deadline.
  await eventually(async () => assert.equal(await waiting(scene), 1));
  await pump.stop();
});

test('event pump: an unreadable event is reported once and acknowledged', async () => {
  await using scene = openScene();
  const acknowledged: number[] = [];
  const source = changedIn(scene.source, {
    take: async (_limit, after = 0) => (after < 7 ? [{ number: 7, json: Buffer.from('{"Records":') }] : []),
    async acknowledge(numbers) {
      acknowledged.push(...numbers);
    },
  });
  const pump = new EventPump({ source, jobs: scene.jobs, report: (problem) => scene.problems.push(problem) });
  pump.start();
  await eventually(() => assert.deepEqual(acknowledged, [7]));
  await pump.stop();
  assert.match(String(scene.problems), /not JSON/);
  assert.equal(scene.problems.length, 1);
});

test('event pump: a failed acknowledgement is retried', async () => {
  await using scene = openScene();
  await scene.addService('demo', 'demo/in');
  let failures = 3;
  const source = changedIn(scene.source, {
    async acknowledge(numbers) {
      if (failures-- > 0) throw noAnswer();
      await scene.source.acknowledge(numbers);
    },
  });
  const report = (problem: unknown) => scene.problems.push(problem);
  const pump = new EventPump({ source, jobs: scene.jobs, report, wait: () => 1 });
  await scene.upload('demo', 'in/a');
  pump.start();
  await allAcknowledged(scene);
  await pump.stop();
  assert.deepEqual([scene.problems.length, scene.enqueued.length], [3, 1]);
});

test('event pump: a failing source is read again', async () => {
  await using scene = openScene();
  await scene.addService('demo', 'demo/in');
  let failures = 3;
  const source = changedIn(scene.source, {
    async take(...query) {
      if (failures-- > 0) throw noAnswer();
      return scene.source.take(...query);
    },
  });
  const report = (problem: unknown) => scene.problems.push(problem);
  const pump = new EventPump({ source, jobs: scene.jobs, report, wait: () => 1 });
  await scene.upload('demo', 'in/a');
  pump.start();
  await allAcknowledged(scene);
  await pump.stop();
  assert.equal(scene.problems.length, 3);
});

test('event pump: stop waits for the events in progress and takes no more', async () => {
  await using scene = openScene();
  const service = await scene.addService('demo', 'demo/in');
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: allowed, resolve: allow } = Promise.withResolvers<void>();
  const store = changedIn(scene.jobs.store, {
    async accept(...job) {
      begin();
      await allowed;
      return scene.jobs.store.accept(...job);
    },
  });
  await scene.upload('demo', 'in/a');
  const pump = scene.pump(store);
  pump.start();
  await begun;
  const stopped = pump.stop();
  await scene.upload('demo', 'in/b');
  allow();
  await stopped;
  assert.deepEqual(await scene.ran(service), ['in/a']);
  assert.equal(await waiting(scene), 1);
});

test('event pump: the backlog has the number of events and the time of the oldest', async () => {
  await using scene = openScene();
  await scene.addService('demo', 'demo/in');
  const pump = scene.pump();
  assert.deepEqual(await pump.backlog(), { events: 0 });
  const oldestAt = scene.clock.now;
  for (const key of ['in/a', 'in/b']) {
    await scene.upload('demo', key);
    scene.clock.now += 1_000;
  }
  assert.deepEqual(await pump.backlog(), { events: 2, oldestAt });
});
