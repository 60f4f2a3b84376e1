import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { holdingStore } from '../holding-store.fixture.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE } from '../jobs.fixture.ts';
import type { Delegation } from '../jobs.ts';
import { viewJob } from '../views/view.ts';
import { openReplicas, type Replica } from './replicas.fixture.ts';

const user = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;
const submit = (at: Replica, service: ServiceRecord, trigger: 'job' | 'run' = 'job') =>
  submitJob(user, service, Buffer.from('{}'), trigger, at);

/** A cluster with room for one job, which lets jobs of "demo" start only when the test says so. */
async function scene(t: TestContext) {
  const replicas = await openReplicas();
  t.after(() => replicas[Symbol.asyncDispose]());
  const store = holdingStore(replicas.store, ['free']);
  const open = () => replicas.open({ store, cpu: 1000 });
  const one = await open();
  const [demo, free] = [await replicas.service('demo'), await replicas.service('free')];
  const { runner } = replicas;
  const starts = (key: JobKey) => runner.attempts.get(key.id)?.starts ?? 0;
  const started = (key: JobKey) => eventually(() => assert.equal(starts(key), 1));
  return { replicas, store, open, one, demo, free, runner, starts, started };
}

test('suspended: a job uses no room, blocks no other, shows the reason, and runs when it is admitted', async (t) => {
  const { replicas, store, one, demo, free, runner, started } = await scene(t);
  await one.lead();
  const held = await submit(one, demo);
  const other = await submit(one, free);
  await started(other);
  runner.end(other.id);
  await replicas.until(other, 'succeeded');
  await eventually(() => assert.equal(one.capacity.taken, 0));
  const record = await store.get(held);
  assert.ok(record);
  assert.deepEqual([record.state, viewJob(record, user).message], ['queued', 'waits for its queue']);
  assert.equal(one.scheduler.waiting, 0);

  await store.letIn(held);
  await started(held);
  runner.end(held.id);
  assert.equal((await replicas.until(held, 'succeeded')).attempts.length, 1);
});

test('suspended: a call is answered when it is admitted', async (t) => {
  const { replicas, store, one, demo, runner, started } = await scene(t);
  await one.lead();
  const call = await submit(one, demo, 'run');
  await store.letIn(call);
  await started(call);
  runner.end(call.id);
  await replicas.until(call, 'succeeded');
});

test('suspended: after a crash a job starts once when it is admitted, whenever that happened', async (t) => {
  const { replicas, store, open, one, demo, runner, started } = await scene(t);
  await one.lead();
  const [before, between, after] = [await submit(one, demo), await submit(one, demo), await submit(one, demo)];
  await store.letIn(before);
  await started(before);
  await one.die();
  await store.letIn(between);
  const two = await open();
  await two.lead();
  runner.end(before.id);
  await started(between);
  runner.end(between.id);
  await store.letIn(after);
  await started(after);
  runner.end(after.id);
  for (const key of [before, between, after]) assert.equal((await replicas.until(key, 'succeeded')).attempts.length, 1);
});

test('suspended: a queued job that is suspended again does not start', async (t) => {
  const { replicas, store, one, demo, free, runner, starts, started } = await scene(t);
  await one.lead();
  const first = await submit(one, free);
  await started(first);
  const second = await submit(one, demo);
  await store.letIn(second);
  await eventually(() => assert.equal(one.scheduler.waiting, 1));
  await store.hold(second, 'its queue is stopped');
  await eventually(() => assert.equal(one.scheduler.waiting, 0));
  runner.end(first.id);
  await replicas.until(first, 'succeeded');
  assert.equal(starts(second), 0);
  await store.letIn(second);
  await started(second);
});

test('suspended: a running job that is evicted fails with the reason and is not run again', async (t) => {
  const { replicas, store, one, demo, runner, starts, started } = await scene(t);
  await one.lead();
  const key = await submit(one, demo);
  await store.letIn(key);
  await started(key);
  await store.hold(key, 'its queue does not let it go on: stopped');
  const { message, timeline } = await replicas.until(key, 'failed');
  assert.equal(runner.attempts.get(key.id)?.stopped, 'evicted');
  assert.equal(timeline.at(-1)?.reason, 'Evicted');
  assert.equal(message, 'the cluster took back the leave to run it: its queue does not let it go on: stopped');
  await store.letIn(key);
  assert.equal(starts(key), 1);
});

test('suspended: a job that is evicted without a leader is stopped by the next leader', async (t) => {
  const { replicas, store, open, one, demo, started } = await scene(t);
  await one.lead();
  const key = await submit(one, demo);
  await store.letIn(key);
  await started(key);
  await one.die();
  await store.hold(key, 'its queue does not let it go on');
  const two = await open();
  await two.lead();
  assert.equal((await replicas.until(key, 'failed')).timeline.at(-1)?.reason, 'Evicted');
});

test('suspended: a job is cancelled at once', async (t) => {
  const { replicas, store, one, demo, starts } = await scene(t);
  await one.lead();
  const key = await submit(one, demo);
  await one.scheduler.cancel(key, 'cancelled');
  await replicas.until(key, 'cancelled');
  await store.letIn(key);
  assert.equal(starts(key), 0);
});

test('suspended: after a while a job is offered to other clusters, as without room (F15)', async (t) => {
  const { replicas, store, one, demo } = await scene(t);
  const members = [{ type: 'oscar', cluster_id: 'b', service_name: 'demo' }];
  const federation = { role: 'coordinator', uid: 'u', revision: 1, committed: true } as const;
  const definition = { ...demo.service.definition, federation: { topology: 'star', members } } as never;
  const coordinator = await replicas.cluster.services.replace(
    { ...demo.service, definition, federation },
    demo.version,
  );
  const considered: string[] = [];
  const consider = ({ id }: JobKey) => considered.push(id);
  await one.lead({ delegation: { consider, onChanged() {} } as unknown as Delegation });
  const [letIn, held] = [await submit(one, coordinator), await submit(one, coordinator)];
  await store.letIn(letIn);
  await eventually(() => assert.deepEqual(considered, [held.id]), 10_000);
});
