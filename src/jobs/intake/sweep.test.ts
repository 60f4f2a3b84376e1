import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DAY, known, MINUTE, openScene, passLater, subscribed } from './intake.fixture.ts';

describe('sweep: a lost event', () => {
  test('becomes a queued job once its object has settled', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a.txt');
    await scene.upload('demo', 'elsewhere/b.txt');
    await scene.upload('demo', 'in/folder/', '');
    await passLater(scene, 1);
    assert.deepEqual(await scene.ran(service), [], 'its event may still be on the way');
    await passLater(scene, 1);
    assert.deepEqual(await scene.ran(service), ['in/a.txt']);
    assert.equal(scene.enqueued.length, 1);
    assert.deepEqual(scene.problems, []);
  });

  test('is found behind many pages of objects', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await Promise.all(Array.from({ length: 600 }, (_, i) => scene.upload('demo', `in/${i}`)));
    await passLater(scene);
    assert.equal(new Set(await scene.ran(service)).size, 600);
  });

  test('becomes a job of every subscribed service, and of no other', async () => {
    await using scene = openScene();
    const one = await subscribed(scene, 'one', 'shared/in');
    const two = await subscribed(scene, 'two', 'shared/in', 'shared/in/deep');
    const other = await subscribed(scene, 'other', 'shared/other');
    await scene.upload('shared', 'in/deep/a');
    await passLater(scene);
    assert.deepEqual(await Promise.all([one, two, other].map((each) => scene.ran(each))), [
      ['in/deep/a'],
      ['in/deep/a'],
      [],
    ]);
  });

  test('becomes another job when its object is written again', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/a']);
  });
});

describe('sweep: no job', () => {
  test('for the 1,000 existing objects in the bucket of a new service', async () => {
    await using scene = openScene();
    const before = await scene.addService('before', 'photos/elsewhere');
    await Promise.all(Array.from({ length: 1_000 }, (_, i) => scene.upload('photos', `in/${i}`)));
    await passLater(scene);
    const service = await scene.addService('demo', 'photos/in');
    for (let i = 0; i < 3; i++) await passLater(scene);
    assert.deepEqual(await scene.ran(service), []);
    scene.clock.now += 1;
    await scene.upload('photos', 'in/new');
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/new']);
    assert.deepEqual(await scene.ran(before), []);
  });

  test('for an object whose job has expired', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    await scene.finish(service);
    scene.clock.now += 30 * DAY;
    assert.equal((await scene.jobs.store.expire(scene.clock.now, 100)).length, 1);
    for (let i = 0; i < 5; i++) await passLater(scene, 61);
    assert.deepEqual(await scene.ran(service), []);
    assert.equal(scene.enqueued.length, 1);
  });

  test('for an object whose recent job was deleted by its user', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    await scene.deliver();
    await scene.finish(service);
    const [id = ''] = scene.enqueued;
    assert.equal(await scene.jobs.store.remove({ service: 'demo', id }), true);
    for (let i = 0; i < 100; i++) await passLater(scene, 2);
    assert.equal(scene.enqueued.length, 1);
  });

  test('is created twice for an object that was uploaded during an outage and whose event arrives after the sweep', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await Promise.all(Array.from({ length: 50 }, (_, i) => scene.upload('demo', `in/${i}`)));
    // Days without a manager: the watermark passes all of them in one pass, and one more follows.
    scene.clock.now += 3 * DAY;
    await scene.sweep().pass();
    assert.equal((await scene.ran(service)).length, 50);
    await scene.finish(service);
    for (const id of scene.enqueued) await scene.jobs.store.remove({ service: 'demo', id });
    await passLater(scene);
    await passLater(scene);
    await scene.deliver();
    assert.equal(scene.enqueued.length, 50);
    assert.deepEqual(await scene.ran(service), []);
  });

  test('for objects from before a prefix became an input again', async () => {
    await using scene = openScene();
    const service = await subscribed(scene, 'demo', 'demo/in', 'demo/other');
    await scene.changeService(service, 'demo/other');
    await passLater(scene);
    scene.clock.now += 30 * DAY;
    await scene.upload('demo', 'in/unwanted');
    scene.clock.now += 30 * DAY;
    await scene.changeService(service, 'demo/in', 'demo/other');
    for (let i = 0; i < 3; i++) await passLater(scene);
    assert.deepEqual(await scene.ran(service), []);
    await scene.upload('demo', 'in/wanted');
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/wanted']);
  });

  test('for objects of a removed service of the same name', async () => {
    await using scene = openScene();
    const first = await subscribed(scene, 'demo', 'photos/in');
    await scene.upload('photos', 'in/a');
    await scene.removeService(first);
    scene.clock.now += MINUTE;
    const second = await scene.addService('demo', 'photos/in');
    for (let i = 0; i < 3; i++) await passLater(scene);
    assert.deepEqual(await scene.ran(second), []);
    assert.deepEqual(new Set((await known(scene)).map(({ service }) => service.uid)), new Set([second.uid]));
  });
});
