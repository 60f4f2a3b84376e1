import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { accepted, type JobKey, type JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { ServiceRecord } from '../../ports/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, openJobs, type TestJobs } from '../jobs.fixture.ts';
import { changeJob, type Delegation, type HostedJobs, jobKeyText } from '../jobs.ts';
import { Dispatcher } from './dispatcher.ts';

const user = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;
const submit = (jobs: TestJobs, service: ServiceRecord, trigger: 'job' | 'run' = 'job') =>
  submitJob(user, service, Buffer.from('{}'), trigger, jobs);

/** Both sides of delegation; records all calls. */
class Notes implements Delegation, HostedJobs {
  readonly considered: [string, string][] = [];
  readonly takenUp: string[] = [];
  readonly toldToStop: string[] = [];
  readonly handedIn: string[] = [];

  consider({ id }: JobKey, mode: string): void {
    this.considered.push([id, mode]);
  }
  resume({ id }: JobRecord): void {
    this.takenUp.push(id);
  }
  onCancelled({ id }: JobRecord): void {
    this.toldToStop.push(id);
  }
  reportCancelled({ id }: JobRecord): void {
    this.toldToStop.push(id);
  }
  async prepare(): Promise<never> {
    throw new Error('nothing is run for others here');
  }
  onChanged(): void {}
  onRemoved(): void {}
  reportQueued(): void {}
  reportRunning(): void {}
  async reportResult({ id }: JobRecord) {
    this.handedIn.push(id);
    return { state: 'succeeded', reason: 'HandedIn', message: 'its origin has it' } as const;
  }
}

const member = { type: 'oscar', cluster_id: 'b', service_name: 'demo' };
const federated = (more: object = {}) => ({ federation: { topology: 'star', members: [member], ...more } });

async function coordinator(jobs: TestJobs, more: object = {}): Promise<ServiceRecord> {
  const made = await jobs.service('demo', federated(more));
  const federation = { role: 'coordinator', uid: 'u', revision: 1, committed: true } as const;
  return jobs.services.replace({ ...made.service, federation }, made.version);
}

async function scene(t: TestContext, more: object = {}) {
  const jobs = await openJobs(1000);
  t.after(() => jobs[Symbol.asyncDispose]());
  const notes = new Notes();
  jobs.scheduler.connect({ delegation: notes, hostedJobs: notes });
  return { jobs, notes, service: await coordinator(jobs, more) };
}

test('delegation: a job with room here is not offered', async (t) => {
  const { jobs, notes, service } = await scene(t);
  await jobs.until(await submit(jobs, service), 'running');
  assert.deepEqual(notes.considered, []);
});

test('delegation: a job without room is offered, and stays queued here', async (t) => {
  const { jobs, notes, service } = await scene(t);
  const first = await submit(jobs, service);
  const second = await submit(jobs, service);
  assert.deepEqual(notes.considered, [[second.id, 'overflow']]);
  await eventually(() => assert.ok(jobs.runner.attempts.has(first.id)));
  jobs.runner.end(first.id);
  await jobs.until(second, 'running');
});

test('delegation: a withdrawn job is not started here', async (t) => {
  const { jobs, service } = await scene(t);
  const first = await submit(jobs, service);
  const second = await submit(jobs, service);
  jobs.scheduler.withdraw(second);
  await eventually(() => assert.ok(jobs.runner.attempts.has(first.id)));
  jobs.runner.end(first.id);
  await jobs.until(first, 'succeeded');
  assert.equal(jobs.scheduler.waiting, 0);
  assert.equal((await jobs.store.get(second))?.state, 'queued');
});

test('delegation: a job that no node here could run is offered', async (t) => {
  const { jobs, notes } = await scene(t);
  const made = await jobs.service('large', { ...federated(), cpu: '8' });
  const federation = { role: 'coordinator', uid: 'v', revision: 1, committed: true } as const;
  const key = await submit(jobs, await jobs.services.replace({ ...made.service, federation }, made.version));
  assert.deepEqual(notes.considered, [[key.id, 'overflow']]);
});

test('delegation: with delegate_when: always a job is not queued here', async (t) => {
  const { jobs, notes, service } = await scene(t, { delegate_when: 'always' });
  const key = await submit(jobs, service);
  assert.deepEqual(notes.considered, [[key.id, 'any']]);
  assert.equal(jobs.scheduler.waiting + jobs.scheduler.running, 0);
});

test('delegation: cancelling a delegated job informs the delegator', async (t) => {
  const { jobs, notes, service } = await scene(t, { delegate_when: 'always' });
  const key = await submit(jobs, service);
  await changeJob(key, jobs.store, () => ({ state: 'delegated', epoch: 1, placement: { member: 'b/demo', epoch: 1 } }));
  await jobs.scheduler.cancel(key, 'cancelled');
  assert.equal((await jobs.store.get(key))?.state, 'cancelled');
  assert.deepEqual(notes.toldToStop, [key.id]);
});

test('delegation: a committing job is not cancelled', async (t) => {
  const { jobs, notes, service } = await scene(t, { delegate_when: 'always' });
  const key = await submit(jobs, service);
  await changeJob(key, jobs.store, () => ({
    state: 'committing',
    epoch: 1,
    placement: { member: 'b/demo', epoch: 1 },
  }));
  await jobs.scheduler.cancel(key, 'cancelled');
  assert.equal((await jobs.store.get(key))?.state, 'committing');
  assert.deepEqual(notes.toldToStop, []);
});

test('delegation: a hosted job starts with the room that was reserved for it', async (t) => {
  const { jobs, service } = await scene(t);
  const job = { service: 'demo', id: 'demo-taken', owner: ALICE, demand: { cpu: 1000, memory: 1, gpu: 0 } };
  assert.ok(jobs.capacity.reserve(jobKeyText(job), job.demand));
  const waits = await submit(jobs, service);
  const arrival = { principal: ALICE, invoker: '', trigger: 'job', byToken: true, acceptedAt: 1 } as const;
  await jobs.store.accept(
    { ...job, ...arrival, serviceUid: service.service.uid },
    accepted(1, 'here'),
    Buffer.from(''),
  );
  jobs.scheduler.begin(job);
  jobs.scheduler.begin(job);
  await jobs.until(job, 'running');
  assert.equal((await jobs.store.get(waits))?.state, 'queued');
});

test('delegation: after a restart delegated jobs are resumed and results of hosted jobs reported', async (t) => {
  const { jobs, service } = await scene(t, { delegate_when: 'always' });
  const keys = [];
  for (const state of ['queued', 'offering', 'delegated', 'committing'] as const) {
    const key = await submit(jobs, service);
    await changeJob(key, jobs.store, () => ({ state, epoch: 1, placement: { member: 'b/demo', epoch: 1 } }));
    keys.push(key.id);
  }
  const taken = { uid: 'u', member: 'here/demo', job: { service: 'far', id: 'far-1' }, epoch: 1, payload: '' };
  const over = { service: 'demo', id: 'demo-over', owner: ALICE, demand: { cpu: 1, memory: 1, gpu: 0 } };
  const arrival = { principal: ALICE, invoker: '', trigger: 'job', byToken: true, acceptedAt: 1, taken } as const;
  const progress = { ...accepted(1, 'here'), state: 'committing' } as const;
  await jobs.store.accept({ ...over, ...arrival, serviceUid: service.service.uid }, progress, Buffer.from(''));

  jobs.scheduler.stop();
  const notes = new Notes();
  const again = new Dispatcher({ ...jobs, report: () => {} });
  t.after(() => again.stop());
  again.connect({ delegation: notes, hostedJobs: notes });
  await again.start();
  assert.deepEqual(notes.considered, [[keys[0], 'any']]);
  assert.deepEqual(notes.takenUp, keys.slice(1));
  const end = await jobs.until(over, 'succeeded');
  assert.equal(end.timeline.at(-1)?.reason, 'HandedIn');
  assert.deepEqual(notes.handedIn, [over.id]);
});
