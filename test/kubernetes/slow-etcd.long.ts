import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { placeOf, storyOf } from '../support/delegation.ts';
import { eventually } from '../support/jobs.ts';
import { Coordinators } from './coordinators.ts';
import { MANAGER_NAMESPACE } from './manager-rights.ts';

const ROUND = { timeout: 400_000 };

/** The delay of each answer of etcd. The API server needs two or three answers for a write. */
const LATE = [300, 800] as const;

/** Every request takes seconds. */
const PATIENCE = 240_000;

const JOBS = 8;

describe('slow etcd', ROUND, () => {
  let our: Coordinators;
  before(async () => {
    // As long as it is without a word about it: whether that is enough is the question.
    our = await Coordinators.start({ slowEtcd: true, settings: { OSCAR_LEADER_SECONDS: '15' } });
  });
  after(() => our?.[Symbol.asyncDispose]());

  const lease = async () => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${MANAGER_NAMESPACE}/leases/oscar-manager`;
    const { spec } = (await our.plane.admin.do('GET', path)) as {
      spec: { holderIdentity: string; leaseTransitions: number; renewTime: string };
    };
    return spec;
  };

  test(
    'jobs are accepted, given to a member and committed, each once, and the leader stays the same',
    ROUND,
    async () => {
      const { leader, other } = await our.findLeader();
      await our.create(leader, 'slow');
      our.release('slow');
      const first = await lease();
      our.plane.setEtcdDelay(LATE);
      const begun = performance.now();
      const ids = await Promise.all(
        Array.from({ length: JOBS }, (_, n) => our.submit(n % 2 === 0 ? leader : other, 'slow')),
      );
      assert.ok(performance.now() - begun > LATE[0], 'etcd is not delayed');
      await eventually(async () => {
        const jobs = await our.jobs(other, 'slow');
        assert.deepEqual(jobs.map(({ id }) => id).toSorted(), ids.toSorted());
        for (const job of jobs) assert.equal(job.state, 'succeeded', storyOf(job));
      }, PATIENCE);
      for (const job of await our.jobs(other, 'slow')) {
        assert.deepEqual([placeOf(job), job.attempts.length, our.countRuns(job.id)], ['target', 1, 1], storyOf(job));
      }
      assert.deepEqual(await our.countWrites('slow'), our.expectedResults(ids));
      await eventually(async () => assert.deepEqual(await our.listStaged(other, 'slow'), []), PATIENCE);
      const now = await lease();
      assert.deepEqual(
        [now.holderIdentity, now.leaseTransitions],
        [first.holderIdentity, first.leaseTransitions],
        'nobody else has led',
      );
      assert.notEqual(now.renewTime, first.renewTime);
      our.plane.setEtcdDelay();
    },
  );

  test('when the leader is killed, another one leads and nothing is done twice', ROUND, async () => {
    const { leader, other } = await our.findLeader();
    await our.create(leader, 'slower');
    our.plane.setEtcdDelay(LATE);
    const ids = await Promise.all(Array.from({ length: JOBS }, () => our.submit(other, 'slower')));
    await eventually(() => assert.ok(ids.some((id) => our.countRuns(id) > 0)), PATIENCE);
    leader.child.kill('SIGKILL');
    our.release('slower');
    await eventually(async () => {
      for (const job of await our.jobs(other, 'slower')) assert.equal(job.state, 'succeeded', storyOf(job));
    }, PATIENCE);
    for (const job of await our.jobs(other, 'slower')) {
      const runs = our.countRuns(job.id);
      assert.ok(runs >= 1 && runs <= job.attempts.length, `${runs} runs: ${storyOf(job)}`);
    }
    assert.deepEqual(await our.countWrites('slower'), our.expectedResults(ids));
    our.plane.setEtcdDelay();
  });
});
