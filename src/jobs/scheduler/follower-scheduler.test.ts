import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { changedIn } from '../../lib/changed-in.fixture.ts';
import { accepted, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { type JobStore, type ServiceRecord, StoreError } from '../../ports/index.ts';
import { invokeService } from '../intake/invoke.ts';
import { ALICE } from '../jobs.fixture.ts';
import { changeJob } from '../jobs.ts';
import { removeServiceJobs } from './end.ts';
import { CALLER_WAITS, Notes, scene, started, submit, USER } from './replicas.fixture.ts';

test('leader: it starts a job that another manager accepted', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  const service = await replicas.service('demo');
  await leader.lead();
  const key = await submit(other, service);
  const ended = other.scheduler.waitUntilEnded(key);
  await started(replicas, key);
  replicas.runner.end(key.id);
  assert.equal((await ended)?.state, 'succeeded');
  assert.deepEqual([...leader.problems, ...other.problems], []);
});

test('leader: without a leader a job waits, and the next leader starts it', async (t) => {
  const replicas = await scene(t);
  const [one, two] = [await replicas.open(), await replicas.open()];
  const key = await submit(one, await replicas.service('demo'));
  assert.equal((await replicas.store.get(key))?.state, 'queued');
  await two.lead();
  await started(replicas, key);
});

test('leader: the next leader resumes running jobs, which keep their keys', async (t) => {
  const replicas = await scene(t);
  const [one, two] = [await replicas.open(), await replicas.open()];
  const service = await replicas.service('demo', { output: [{ storage_provider: 'minio.default', path: 'out' }] });
  await one.lead();
  const key = await submit(one, service);
  await started(replicas, key);
  await replicas.runner.attempts.get(key.id)?.attempt.stores();
  assert.equal(replicas.buckets.issued.size, 1);
  const waits = one.scheduler.waitUntilEnded(key);
  one.resign();
  await eventually(() => assert.equal(one.capacity.taken, 0));
  assert.equal(replicas.buckets.issued.size, 1);

  await two.lead();
  await started(replicas, key, 2);
  assert.equal(two.capacity.taken, 1000);
  replicas.runner.end(key.id);
  // Whoever waited at the one that led before is told all the same.
  assert.equal((await waits)?.state, 'succeeded');
  assert.equal((await replicas.store.get(key))?.epoch, 1);
});

test('leader: a manager can lead again, without state of its earlier term', async (t) => {
  const replicas = await scene(t);
  const one = await replicas.open();
  const service = await replicas.service('demo');
  await one.lead();
  const first = await submit(one, service);
  await started(replicas, first);
  one.resign();
  const second = await submit(one, service);
  await one.lead();
  await started(replicas, first, 2);
  assert.equal((await replicas.store.get(second))?.state, 'queued');
  replicas.runner.end(first.id);
  await started(replicas, second);
});

test('cancel: any manager cancels a queued job at once; the leader stops a running one', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  const service = await replicas.service('demo');
  await leader.lead();
  const [runs, waits, next] = [
    await submit(other, service),
    await submit(other, service),
    await submit(other, service),
  ];
  await started(replicas, runs);
  await other.scheduler.cancel(waits, 'cancelled');
  assert.equal((await replicas.store.get(waits))?.state, 'cancelled');
  await other.scheduler.cancel(runs, 'cancelled');
  const ended = await replicas.until(runs, 'cancelled');
  assert.equal(ended.message, 'it was cancelled');
  assert.equal(replicas.runner.attempts.get(runs.id)?.stopped, 'cancelled');
  await started(replicas, next);
  assert.equal(replicas.runner.attempts.has(waits.id), false);
});

test('cancel: the next leader executes a cancel that was requested without a leader, with the same reason', async (t) => {
  const replicas = await scene(t);
  const [one, two] = [await replicas.open(), await replicas.open()];
  await one.lead();
  const key = await submit(one, await replicas.service('demo'));
  await started(replicas, key);
  one.resign();
  await two.scheduler.cancel(key, 'superseded');
  assert.equal((await replicas.store.get(key))?.state, 'running');
  await two.lead();
  await replicas.until(key, 'cancelled');
  assert.equal(replicas.runner.attempts.get(key.id)?.stopped, 'superseded');
});

test('remove: after another manager removed a service, its queued jobs are dequeued and running ones stopped', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  const [gone, stays] = [await replicas.service('gone'), await replicas.service('stays')];
  await leader.lead();
  const [runs, waits] = [await submit(other, gone), await submit(other, gone)];
  await started(replicas, runs);
  const waiter = other.scheduler.waitUntilEnded(waits);
  await removeServiceJobs(gone.service.uid, other);
  assert.equal(await waiter, undefined);
  await eventually(() => assert.equal(leader.scheduler.waiting + leader.capacity.taken, 0));
  const key = await submit(other, stays);
  await started(replicas, key);
  assert.equal(replicas.runner.attempts.has(waits.id), false);
});

test('remove: a running job is stopped when its record is removed', async (t) => {
  const replicas = await scene(t);
  const leader = await replicas.open();
  const service = await replicas.service('demo');
  await leader.lead();
  const key = await submit(leader, service);
  await started(replicas, key);
  await replicas.store.removeService(service.service.uid);
  await eventually(() => assert.equal(replicas.runner.attempts.get(key.id)?.stopped, 'service-removed'));
  await eventually(() => assert.equal(leader.capacity.taken, 0));
});

test('invoke: a call at a follower is answered', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  await leader.lead();
  const service = await replicas.service('demo');
  const { promise: begun, resolve } = Promise.withResolvers<JobKey>();
  const options = { timeout: 60_000, left: new AbortController().signal, accepted: resolve };
  const invocation = invokeService(USER, service, Buffer.from('{}'), options, other);
  const { id } = await begun;
  await started(replicas, await begun);
  // The leader changes while the caller waits.
  leader.resign();
  const third = await replicas.open();
  await third.lead();
  await started(replicas, await begun, 2);
  replicas.runner.end(id);
  const { succeeded, answer } = await invocation;
  assert.equal(succeeded, true);
  assert.equal(await text(answer), `answer of ${id}`);
});

test('invoke: a caller that disconnects from a follower ends the job', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  await leader.lead();
  const left = new AbortController();
  const { promise: begun, resolve } = Promise.withResolvers<JobKey>();
  const options = { timeout: 60_000, left: left.signal, accepted: resolve };
  const invocation = invokeService(USER, await replicas.service('demo'), Buffer.from('{}'), options, other);
  await started(replicas, await begun);
  left.abort();
  await assert.rejects(invocation, { code: 'run-timeout' });
  await replicas.until(await begun, 'cancelled');
  assert.equal(replicas.runner.attempts.get((await begun).id)?.stopped, 'caller-left');
});

test('invoke: a call whose manager died is cancelled after the caller timeout', async (t) => {
  const replicas = await scene(t);
  let ahead = 0;
  const one = await replicas.open();
  const two = await replicas.open({ now: () => Date.now() + ahead });
  await one.lead();
  const service = await replicas.service('demo');
  const [runs, waits] = [await submit(one, service, 'run'), await submit(one, service, 'run')];
  await started(replicas, runs);
  await one.die();
  await two.lead();
  await started(replicas, runs, 2);
  assert.equal((await replicas.store.get(runs))?.cancelRequested, undefined);
  two.resign();

  ahead = CALLER_WAITS + 15_000;
  await two.lead();
  for (const key of [runs, waits]) await replicas.until(key, 'cancelled');
  assert.equal(replicas.runner.attempts.get(runs.id)?.stopped, 'caller-left');
});

test('invoke: a call is cancelled after the caller timeout while the same manager leads', async (t) => {
  const replicas = await scene(t);
  const one = await replicas.open();
  // By its clock there are two seconds left.
  const two = await replicas.open({ now: () => Date.now() + CALLER_WAITS + 8_000 });
  const key = await submit(one, await replicas.service('demo'), 'run');
  await two.lead();
  await replicas.until(key, 'cancelled');
});

test('leader: two managers that both believe to lead start no job twice', async (t) => {
  const replicas = await scene(t);
  const [one, two] = [await replicas.open({ cpu: 100_000 }), await replicas.open({ cpu: 100_000 })];
  await Promise.all([one.lead(), two.lead()]);
  const service = await replicas.service('demo');
  const keys: JobKey[] = [];
  for (let i = 0; i < 20; i++) keys.push(await submit(i % 2 === 0 ? one : two, service));
  for (const key of keys) {
    await eventually(() => assert.ok(replicas.runner.attempts.has(key.id)));
    replicas.runner.end(key.id);
  }
  for (const key of keys) {
    const record = await replicas.until(key, 'succeeded');
    assert.deepEqual(
      record.attempts.map(({ name, epoch }) => [name, epoch]),
      [[key.id, 1]],
    );
  }
});

test('leader: the leader resumes a job that a former leader has started', async (t) => {
  const replicas = await scene(t);
  const [asleep, leader] = [await replicas.open(), await replicas.open({ cpu: 0 })];
  await Promise.all([asleep.lead(), leader.lead()]);
  const key = await submit(leader, await replicas.service('demo'));
  await eventually(() => assert.ok((replicas.runner.attempts.get(key.id)?.starts ?? 0) > 1));
  asleep.resign();
  replicas.runner.end(key.id);
  await replicas.until(key, 'succeeded');
});

test('leader: the leader resumes a job that a former leader started at the same moment', async (t) => {
  const replicas = await scene(t);
  const leader = await replicas.open({ store: overtaken(replicas.store) });
  await leader.lead();
  const key = await submit(leader, await replicas.service('demo'));
  await started(replicas, key);
  replicas.runner.end(key.id);
  await replicas.until(key, 'succeeded');
  await eventually(() => assert.equal(leader.capacity.taken, 0));
});

/** A store in which somebody else is quicker to begin each job, which is heard of before whoever comes second is told. */
function overtaken(store: JobStore): JobStore {
  const heard = Promise.withResolvers<void>();
  return changedIn(store, {
    async changes(query) {
      const changes = await store.changes(query);
      if (changes.items.some(({ record }) => record?.state === 'running')) setImmediate(heard.resolve);
      return changes;
    },
    async update(key, version, change) {
      if (change.state === 'running') {
        await changeJob(key, store, (job) => (job.state === 'queued' ? change : undefined));
        await heard.promise;
      }
      return store.update(key, version, change);
    },
  });
}

test('leader: an ended attempt is not started again because of an old record', async (t) => {
  const replicas = await scene(t);
  const one = await replicas.open();
  const service = await replicas.service('demo');
  await one.lead();
  const key = await submit(one, service);
  await started(replicas, key);
  const old = await replicas.until(key, 'running');
  replicas.runner.end(key.id);
  await replicas.until(key, 'succeeded');
  one.resign();
  // As when its removal has only begun.
  await replicas.runner.forget(key.id);

  const late = await replicas.open({ store: sees(old, replicas.store) });
  await late.lead();
  const next = await submit(late, service);
  await started(replicas, next);
  assert.equal(replicas.runner.attempts.has(key.id), false);
});

/** A store whose list of what is unfinished is late. */
function sees(old: JobRecord, store: JobStore): JobStore {
  return changedIn(store, {
    async *unfinished() {
      yield old;
      yield* store.unfinished();
    },
  });
}

test('follower: after missed changes all records are read again', async (t) => {
  const replicas = await scene(t);
  const forgetful = new Forgetful();
  const leader = await replicas.open({ store: forgetful.over(replicas.store) });
  const other = await replicas.open();
  await leader.lead();
  const service = await replicas.service('demo');
  const ends = await submit(other, service);
  await started(replicas, ends);
  const told = leader.scheduler.waitUntilEnded(ends);
  const leaves = await submit(other, service);
  await eventually(() => assert.equal(leader.scheduler.waiting, 1));
  forgetful.forgets = true;
  await other.scheduler.cancel(leaves, 'cancelled');
  await eventually(() => assert.equal(leader.scheduler.waiting, 0));
  forgetful.forgets = true;
  const key = await submit(other, service);
  await changeJob(ends, replicas.store, () => ({ state: 'failed' }));
  forgetful.forgets = false;
  assert.equal((await told)?.state, 'failed');
  replicas.runner.end(ends.id);
  await started(replicas, key);
});

/** Its cursors are worth nothing while it forgets. */
class Forgetful {
  forgets = false;
  over(store: JobStore): JobStore {
    return changedIn(store, {
      changes: async (query) => {
        if (this.forgets && query.since !== undefined) {
          this.forgets = false;
          throw new StoreError('expired', 'that cursor is not known any more');
        }
        return store.changes(query);
      },
    });
  }
}

const taken = { uid: 'u', member: 'here/demo', job: { service: 'far', id: 'far-1' }, epoch: 1, payload: '' };

function arrive(service: ServiceRecord, id: string, more: Partial<JobRecord> = {}) {
  const key = { service: 'demo', id };
  const { demand, ...rest } = { demand: { cpu: 1000, memory: 1, gpu: 0 }, ...more };
  const arrival = { principal: ALICE, invoker: '', trigger: 'job', byToken: true, acceptedAt: 1 } as const;
  return { job: { ...key, ...arrival, owner: ALICE, demand, serviceUid: service.service.uid, ...rest }, key };
}

test('leader: it sees reports that members sent to other managers, and resumes a new job once', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  const notes = new Notes();
  const service = await replicas.service('demo');
  const { job, key } = arrive(service, 'abcd-1');
  const offered = {
    ...accepted(1, 'here'),
    state: 'offering',
    epoch: 1,
    placement: { member: 'b/demo', epoch: 1 },
  } as const;
  await other.store.accept(job, offered, Buffer.from('{}'));
  await leader.lead(notes.roles);
  const told = () => notes.told.filter((each) => each !== 'changed to offering abcd');
  assert.deepEqual(told(), ['resume abcd']);
  await changeJob(key, other.store, () => ({ state: 'delegated' }));
  await eventually(() => assert.deepEqual(told().slice(1), ['changed to delegated abcd']));
  await other.scheduler.cancel(key, 'cancelled');
  await eventually(() => assert.deepEqual(told().slice(2), ['cancelled abcd', 'changed to cancelled abcd']));
});

test('leader: a hosted job that a follower accepted is queued, and its origin gets reports', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open({ cpu: 0 }), await replicas.open()];
  const notes = new Notes();
  await leader.lead(notes.roles);
  const { job, key } = arrive(await replicas.service('demo'), 'abcd-1', { taken });
  assert.equal(other.capacity.reserve('demo/abcd-1', job.demand), true);
  await other.store.accept(job, accepted(1, 'here'), Buffer.from('{}'));
  other.scheduler.begin(job);
  await eventually(() => assert.deepEqual(notes.told, ['report queued abcd']));
  // Room was promised for it: nobody else gets it, until the job has ended or begun.
  assert.equal(other.capacity.taken, 1000);
  await other.scheduler.cancel(key, 'superseded');
  await replicas.until(key, 'cancelled');
  await eventually(() => assert.equal(other.capacity.taken, 0));
  // Whoever does not want it any more need not be told.
  assert.deepEqual(notes.told, ['report queued abcd']);
});

test('leader: a new leader releases the room that it reserved as a follower', async (t) => {
  const replicas = await scene(t);
  const other = await replicas.open();
  const service = await replicas.service('demo');
  const { job } = arrive(service, 'abcd-1');
  assert.equal(other.capacity.reserve('demo/abcd-1', job.demand), true);
  await other.store.accept(job, accepted(1, 'here'), Buffer.from('{}'));
  other.scheduler.begin(job);
  await other.lead();
  await started(replicas, job);
  assert.equal(other.capacity.taken, 1000);
  replicas.runner.end(job.id);
  await replicas.until(job, 'succeeded');
  await eventually(() => assert.equal(other.capacity.taken, 0));
});

test('leader: it reports the result of a hosted job that ended under another manager', async (t) => {
  const replicas = await scene(t);
  const [leader, other] = [await replicas.open(), await replicas.open()];
  const notes = new Notes();
  await leader.lead(notes.roles);
  const { job, key } = arrive(await replicas.service('demo'), 'abcd-1', {
    taken,
    demand: { cpu: 5000, memory: 1, gpu: 0 },
  });
  await other.store.accept(job, accepted(1, 'here'), Buffer.from('{}'));
  await eventually(() => assert.deepEqual(notes.told, ['report queued abcd']));
  await changeJob(key, other.store, () => ({ state: 'committing' }));
  await replicas.until(key, 'succeeded');
  assert.deepEqual(notes.told, ['report queued abcd', 'report result abcd']);
});
