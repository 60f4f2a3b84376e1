import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JobKey } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import type { ServiceRecord, Standby } from '../../ports/index.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, openJobs, PuppetRunner, type TestJobs } from '../jobs.fixture.ts';

const user = { kind: 'user', uid: ALICE, name: ALICE, groups: [], operator: false } as const;
const submit = (jobs: TestJobs, service: ServiceRecord, trigger: 'job' | 'run' = 'run') =>
  submitJob(user, service, Buffer.from('{}'), trigger, jobs);

const stateOf = async (jobs: TestJobs, key: JobKey) => (await jobs.store.get(key))?.state;

/** A job that was let in runs as soon as can be: one that comes after it and runs shows that it was not. */
async function waits(jobs: TestJobs, key: JobKey, other: ServiceRecord): Promise<void> {
  await jobs.until(await submit(jobs, other, 'job'), 'running');
  assert.equal(await stateOf(jobs, key), 'queued');
}

/** Places that are there when the test says so. */
class Places implements Standby {
  ready = 0;
  readonly taken = new Set<string>();
  readonly #listeners = new Set<(service: string) => void>();

  setRequests(): void {}

  claim({ id }: JobKey): boolean {
    if (this.ready === 0) return false;
    this.ready--;
    this.taken.add(id);
    return true;
  }

  release({ id }: JobKey): void {
    this.taken.delete(id);
  }

  onReady(listener: (service: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  add(service: string): void {
    this.ready++;
    for (const listener of this.#listeners) listener(service);
  }

  get listened(): number {
    return this.#listeners.size;
  }
}

class RunnerWithPlaces extends PuppetRunner {
  readonly standby = new Places();
}

async function withPlaces(cpu: number) {
  const runner = new RunnerWithPlaces();
  return Object.assign(await openJobs(cpu, runner), { places: runner.standby });
}

test('call limit: at most max_scale calls of a service run, the others follow in order', async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('few', { synchronous: { max_scale: 2 } });
  const other = await jobs.service('other');
  const calls = [await submit(jobs, service), await submit(jobs, service), await submit(jobs, service)];
  const [first, second, third] = calls as [JobKey, JobKey, JobKey];
  await Promise.all([first, second].map((key) => jobs.until(key, 'running')));
  await waits(jobs, third, other);
  assert.equal(jobs.scheduler.waiting, 0, 'it does not wait for room');
  jobs.runner.end(first.id);
  await jobs.until(third, 'running');
  assert.equal(jobs.scheduler.waiting, 0);
});

test('call limit: a call over the limit blocks no other job of its owner', async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('one', { synchronous: { max_scale: 1 } });
  const [first, second] = [await submit(jobs, service), await submit(jobs, service)];
  await jobs.until(first, 'running');
  const job = await submit(jobs, service, 'job');
  await jobs.until(job, 'running');
  assert.equal(await stateOf(jobs, second), 'queued');
});

test('call limit: a cancelled call frees its slot for the next one', async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('one', { synchronous: { max_scale: 1 } });
  const calls = [await submit(jobs, service), await submit(jobs, service), await submit(jobs, service)];
  const [first, second, third] = calls as [JobKey, JobKey, JobKey];
  await jobs.until(first, 'running');
  await jobs.scheduler.cancel(second, 'caller-left');
  await jobs.until(second, 'cancelled');
  await jobs.scheduler.cancel(first, 'caller-left');
  await jobs.until(third, 'running');
});

test('call limit: 0 means no limit', async () => {
  await using jobs = await openJobs(10_000);
  const service = await jobs.service('many');
  const calls = await Promise.all(Array.from({ length: 5 }, () => submit(jobs, service)));
  await Promise.all(calls.map((key) => jobs.until(key, 'running')));
});

test('standby: a call with a ready pod starts on a full cluster, before queued jobs', async () => {
  await using jobs = await withPlaces(1_000);
  const { places } = jobs;
  const full = await jobs.service('full');
  await jobs.until(await submit(jobs, full, 'job'), 'running');
  const before = await submit(jobs, full, 'job');
  places.add('ready');
  const call = await submit(jobs, await jobs.service('ready'));
  await jobs.until(call, 'running');
  assert.deepEqual([...places.taken], [call.id]);
  assert.equal(jobs.capacity.taken, 1_000);
  assert.equal(await stateOf(jobs, before), 'queued');
  await eventually(() => assert.ok(jobs.runner.attempts.has(call.id)));
  jobs.runner.end(call.id);
  await jobs.until(call, 'succeeded');
  await eventually(() => assert.deepEqual([...places.taken], []));
});

test('standby: a queued call uses a pod that becomes ready', async () => {
  await using jobs = await withPlaces(1_000);
  const { places } = jobs;
  await jobs.until(await submit(jobs, await jobs.service('full'), 'job'), 'running');
  const call = await submit(jobs, await jobs.service('soon'));
  await eventually(() => assert.equal(jobs.scheduler.waiting, 1));
  places.add('another');
  places.ready = 0;
  places.add('soon');
  await jobs.until(call, 'running');
  assert.deepEqual([places.ready, jobs.capacity.taken], [0, 1_000]);
});

test('standby: an asynchronous job uses no standby pod', async () => {
  await using jobs = await withPlaces(1_000);
  const { places } = jobs;
  places.add('both');
  await jobs.until(await submit(jobs, await jobs.service('both'), 'job'), 'running');
  assert.deepEqual([places.ready, jobs.capacity.taken], [1, 1_000]);
});

test('standby: a stopped dispatcher ignores ready pods', async () => {
  await using jobs = await withPlaces(1_000);
  const { places } = jobs;
  assert.equal(places.listened, 1);
  jobs.scheduler.stop();
  assert.equal(places.listened, 0);
});
