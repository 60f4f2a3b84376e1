import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DAY, known, MINUTE, openScene, passLater, subscribed } from './scene.fixture.ts';

describe('an event that never came', () => {
  test('becomes a job once its object has settled, and is put in line', async () => {
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

  test('runs for every service that waits for the object, and only for those', async () => {
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

  test('runs again when its object was written again', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/a']);
  });
});

describe('what must not run', () => {
  test('none of the 1,000 objects of a bucket that a new service is given', async () => {
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

  test('nothing again whose record went by its age', async () => {
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

  test('nothing again whose young record was deleted by its user', async () => {
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

  test('nothing twice that was uploaded while the manager was down, and is delivered by the store after the sweep', async () => {
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

  test('nothing of the months in which nobody waited for a prefix that is waited for again', async () => {
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

  test('nothing of a service of the same name that was removed', async () => {
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
