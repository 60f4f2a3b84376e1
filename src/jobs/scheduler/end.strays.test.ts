import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '../../ports/conformance/eventually.ts';
import { submitJob } from '../intake/submit.ts';
import { ALICE, openJobs } from '../jobs.fixture.ts';
import { removeStrayAttempts } from './end.ts';

const alice = { kind: 'user', uid: ALICE, name: 'Alice', groups: [], operator: false } as const;

test('stray attempts: attempts that no job names are stopped and removed, and no others', async () => {
  await using jobs = await openJobs(10_000);
  const [kept, gone] = [await jobs.service('kept'), await jobs.service('gone')];
  const [ended, running] = [
    await submitJob(alice, kept, Buffer.from('1'), 'job', jobs),
    await submitJob(alice, kept, Buffer.from('2'), 'job', jobs),
  ];
  const strays = [
    await submitJob(alice, gone, Buffer.from('3'), 'job', jobs),
    await submitJob(alice, gone, Buffer.from('4'), 'job', jobs),
  ];
  await eventually(() => assert.equal(jobs.runner.attempts.size, 4));
  jobs.runner.end(ended.id);
  await jobs.until(ended, 'succeeded');
  assert.equal(await removeStrayAttempts(jobs), 0);

  // As a manager does that dies before it has ended what the records named.
  await jobs.store.removeService(gone.service.uid);
  const before = strays.map(({ id }) => jobs.runner.attempts.get(id));
  assert.equal(await removeStrayAttempts(jobs), 2);
  assert.deepEqual(
    before.map((attempt) => attempt?.stopped),
    ['service-removed', 'service-removed'],
  );
  assert.deepEqual((await jobs.runner.list()).toSorted(), [ended.id, running.id].toSorted());
  assert.equal((await jobs.store.get(running))?.state, 'running');
});
