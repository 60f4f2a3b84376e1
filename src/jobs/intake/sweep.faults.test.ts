import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { seededRandom } from '../../../test/support/seeded-random.ts';
import { makeUnreliable } from '../../adapters/sqlite/unreliable-service-store.fixture.ts';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { StoreError } from '../../ports/index.ts';
import { DAY, HOUR, known, MINUTE, openScene, passLater, type Scene, subscribed } from './intake.fixture.ts';
import { Sweep } from './sweep.ts';

const noAnswer = () => new StoreError('unavailable', 'no answer');

describe('sweep: an interrupted pass', () => {
  test('moves no watermark, and the next one completes it without creating a job twice', async () => {
    const { directory } = await interrupted();
    await using scene = openScene(directory);
    scene.clock.now += HOUR;
    await scene.sweep().pass();
    const record = await scene.services.get('demo');
    assert.ok(record);
    const keys = await scene.ran(record.service);
    assert.equal(keys.length, 600);
    assert.equal(new Set(keys).size, 600);
  });

  async function interrupted(): Promise<Scene> {
    const scene = openScene();
    await subscribed(scene);
    await Promise.all(Array.from({ length: 600 }, (_, i) => scene.upload('demo', `in/${i}`)));
    const before = await known(scene);
    let left = 300;
    const store = changedIn(scene.jobs.store, {
      async accept(...job) {
        if (left-- <= 0) throw noAnswer();
        return scene.jobs.store.accept(...job);
      },
    });
    scene.clock.now += 5 * MINUTE;
    await scene.sweep(store).pass();
    assert.equal(scene.problems.length, 1);
    assert.ok(scene.enqueued.length > 0, 'it has accepted some');
    assert.deepEqual(await known(scene), before);
    await scene.close({ keep: true });
    return scene;
  }

  test('of one prefix does not block other prefixes', async () => {
    await using scene = openScene();
    const service = await subscribed(scene, 'demo', 'broken/in', 'fine/in');
    await scene.upload('broken', 'in/a');
    await scene.upload('fine', 'in/b');
    const { objects } = scene.jobs;
    const failing = changedIn(objects, {
      async objects(bucket, query) {
        if (bucket === 'broken') throw noAnswer();
        return objects.objects(bucket, query);
      },
    });
    scene.clock.now += 5 * MINUTE;
    const { jobs, journal, problems } = scene;
    await new Sweep({
      jobs: { ...jobs, objects: failing },
      journal,
      report: (problem) => problems.push(problem),
      storeTime: jobs.now,
    }).pass();
    assert.deepEqual([await scene.ran(service), problems.length], [['in/b'], 1]);
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/b']);
  });

  test('because of a missing bucket is not reported', async () => {
    await using scene = openScene();
    await subscribed(scene);
    await scene.objects.removeBucket('demo');
    await passLater(scene);
    assert.deepEqual(scene.problems, []);
  });
});

describe('sweep: tombstones', () => {
  /** How many marks there are, seen by what can be dropped. */
  const marks = (scene: Scene, uid: string) => scene.jobs.store.dropTombstones(uid, Number.MAX_SAFE_INTEGER);

  async function withMark(scene: Scene, ...paths: string[]) {
    const service = await subscribed(scene, 'demo', ...paths);
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    await scene.finish(service);
    await scene.jobs.store.expire(scene.clock.now + 1, 100);
    return service;
  }

  test('stay for an hour after the watermark has passed their objects', async () => {
    await using scene = openScene();
    const { uid } = await withMark(scene);
    for (let i = 0; i < 18; i++) await passLater(scene);
    assert.equal(await marks(scene, uid), 1);
  });

  test('stay also if the watermark moves by days in one pass', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    await scene.deliver();
    await scene.finish(service);
    await scene.jobs.store.expire(scene.clock.now + 1, 100);
    scene.clock.now += 3 * DAY;
    await passLater(scene);
    assert.equal(await marks(scene, service.uid), 1);
  });

  test('are dropped after two hours', async () => {
    await using scene = openScene();
    const { uid } = await withMark(scene);
    for (let i = 0; i < 42; i++) await passLater(scene);
    assert.equal(await marks(scene, uid), 0);
  });

  test('stay while another prefix of the service is behind', async () => {
    await using scene = openScene();
    const service = await withMark(scene, 'demo/in', 'demo/late');
    const { objects } = scene.jobs;
    const list = objects.objects.bind(objects);
    objects.objects = async (bucket, query) => {
      if (query.prefix === 'late/') throw noAnswer();
      return list(bucket, query);
    };
    for (let i = 0; i < 42; i++) await passLater(scene);
    assert.equal(await marks(scene, service.uid), 1);
  });
});

describe('sweep: several managers', () => {
  test('that sweep at the same time create one job per object', async () => {
    await using scene = openScene();
    const service = await subscribed(scene);
    await Promise.all(Array.from({ length: 300 }, (_, i) => scene.upload('demo', `in/${i}`)));
    scene.clock.now += 3 * MINUTE;
    await Promise.all([scene.sweep().pass(), scene.sweep().pass(), scene.sweep().pass()]);
    assert.equal((await scene.ran(service)).length, 300);
    assert.equal(scene.enqueued.length, 300);
    assert.deepEqual(scene.problems, []);
  });

  test('with stale lists and late watches lose no object', async () => {
    await using scene = openScene();
    const services = makeUnreliable(scene.services, seededRandom(Number(process.env['OSCAR_TEST_SEED'] ?? 1)));
    const { jobs, journal, problems } = scene;
    const report = (problem: unknown) => problems.push(problem);
    const sweeper = () => new Sweep({ jobs: { ...jobs, services }, journal, report, storeTime: jobs.now }).pass();
    const service = await scene.addService('demo', 'demo/in');
    await eventually(async () => {
      await sweeper();
      assert.equal((await known(scene)).length, 1);
    });
    for (let i = 0; i < 20; i++) {
      scene.clock.now += MINUTE;
      await scene.upload('demo', `in/${i}`);
      await sweeper();
    }
    scene.clock.now += 3 * MINUTE;
    await sweeper();
    assert.equal((await scene.ran(service)).length, 20);
    assert.deepEqual(problems, []);
  });
});

describe('sweep: a running sweep', () => {
  test('watches a prefix as soon as its service exists, so that no later object is missed', async () => {
    await using scene = openScene();
    const sweep = scene.sweep();
    sweep.start();
    const service = await scene.addService('demo', 'demo/in');
    await eventually(async () => assert.equal((await known(scene)).length, 1));
    await sweep.stop();
    scene.clock.now += 1;
    await scene.upload('demo', 'in/a');
    await passLater(scene);
    assert.deepEqual(await scene.ran(service), ['in/a']);
  });

  test('removes a prefix as soon as no service has it as input', async () => {
    await using scene = openScene();
    const sweep = scene.sweep();
    sweep.start();
    const service = await scene.addService('demo', 'demo/in', 'demo/other');
    await eventually(async () => assert.equal((await known(scene)).length, 2));
    await scene.changeService(service, 'demo/other');
    await eventually(async () =>
      assert.deepEqual(
        (await known(scene)).map(({ watched }) => watched.prefix),
        ['other/'],
      ),
    );
    await sweep.stop();
  });

  test('repeats passes until it is stopped', async () => {
    await using scene = openScene();
    const { jobs, journal } = scene;
    const service = await subscribed(scene);
    const sweep = new Sweep({ jobs, journal, report: () => undefined, storeTime: jobs.now, interval: 1 });
    sweep.start();
    for (const key of ['in/a', 'in/b']) {
      await scene.upload('demo', key);
      scene.clock.now += 3 * MINUTE;
      await eventually(async () => assert.ok((await scene.ran(service)).includes(key)));
    }
    await sweep.stop();
    await scene.upload('demo', 'in/c');
    scene.clock.now += 3 * MINUTE;
    assert.deepEqual(await scene.ran(service), ['in/a', 'in/b']);
  });

  test('continues after a failed pass', async () => {
    await using scene = openScene();
    const { jobs, problems } = scene;
    const service = await subscribed(scene);
    await scene.upload('demo', 'in/a');
    scene.clock.now += 3 * MINUTE;
    let failures = 3;
    const journal = changedIn(scene.journal, {
      async list(...query) {
        if (failures-- > 0) throw noAnswer();
        return scene.journal.list(...query);
      },
    });
    const report = (problem: unknown) => problems.push(problem);
    const sweep = new Sweep({ jobs, journal, report, storeTime: jobs.now, interval: 1 });
    sweep.start();
    await eventually(async () => assert.deepEqual(await scene.ran(service), ['in/a']));
    await sweep.stop();
    assert.equal(problems.length, 3);
  });
});
