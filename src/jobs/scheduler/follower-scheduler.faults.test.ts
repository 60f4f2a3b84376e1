import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { type JobStore, StoreError } from '../../ports/index.ts';
import type { Jobs } from '../jobs.ts';
import { Notes, type Replicas, scene, started, submit } from './replicas.fixture.ts';

/** The services of a cluster, some of which cannot be read when the test says so. */
function unreadable({ cluster }: Replicas, problemOf: (name: string) => StoreError | undefined): Jobs['services'] {
  const get = async (name: string) => {
    const problem = problemOf(name);
    if (problem) throw problem;
    return cluster.services.get(name);
  };
  return changedIn(cluster.services, { get });
}

test('leader: a damaged definition fails its job and blocks no other', async (t) => {
  const replicas = await scene(t);
  const services = unreadable(replicas, (name) =>
    name === 'bad' ? new StoreError('damaged', 'it does not define a service') : undefined,
  );
  const [one, leader] = [await replicas.open(), await replicas.open({ services, cpu: 2000 })];
  const bad = await submit(one, await replicas.service('bad'));
  const good = await submit(one, await replicas.service('good'));
  await leader.lead(new Notes().roles);
  await started(replicas, good);
  assert.match((await replicas.until(bad, 'failed')).message, /it does not define a service/);
});

test('leader: a job is resumed after its service could not be read at first', async (t) => {
  const replicas = await scene(t);
  let away = 2;
  const services = unreadable(replicas, () => (away-- > 0 ? new StoreError('unavailable', 'not now') : undefined));
  const [leader, other] = [await replicas.open({ services, cpu: 3000 }), await replicas.open()];
  const service = await replicas.service('demo');
  const earlier = await submit(other, service);
  await leader.lead(new Notes().roles);
  await started(replicas, earlier);
  away = 1;
  await started(replicas, await submit(other, service));
});

/** The same store. The first write on a job fails as the test says. */
function failingOnce({ store }: Replicas, fail: (...change: Parameters<JobStore['update']>) => void): JobStore {
  let away = true;
  const update: JobStore['update'] = async (...change) => {
    if (!away) return store.update(...change);
    away = false;
    fail(...change);
    throw new StoreError('unavailable', 'not now');
  };
  return changedIn(store, { update });
}

test('leader: a job whose start could not be written starts later without another trigger', async (t) => {
  const replicas = await scene(t);
  const failed = Promise.withResolvers<void>();
  const store = failingOnce(replicas, () => failed.resolve());
  const [leader, other] = [await replicas.open({ store }), await replicas.open()];
  await leader.lead();
  await started(replicas, await submit(other, await replicas.service('demo')));
  await failed.promise;
});

test('leader: a job whose start was written despite an error starts once', async (t) => {
  const replicas = await scene(t);
  const store = failingOnce(replicas, (...change) => void replicas.store.update(...change));
  const [leader, other] = [await replicas.open({ store, cpu: 2000 }), await replicas.open()];
  await leader.lead();
  const service = await replicas.service('demo');
  const key = await submit(other, service);
  await started(replicas, key);
  // By then it was tried again.
  await eventually(() => assert.equal(leader.problems.length, 1));
  await started(replicas, await submit(other, service));
  assert.deepEqual([replicas.runner.attempts.get(key.id)?.starts, leader.capacity.taken], [1, 2000]);
});
