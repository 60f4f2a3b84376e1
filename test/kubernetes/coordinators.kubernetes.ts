import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { storyOf } from '../support/delegation.ts';
import { expectStatus, member } from '../support/federation.ts';
import { eventually } from '../support/jobs.ts';
import { Coordinators, type Replica } from './coordinators.ts';

/** Another manager notices a lost leader after seconds, and a busy machine is slower. */
const ROUND = { timeout: 300_000 };

const JOBS = 6;

describe('replicas of a coordinator: members talk to the follower', ROUND, () => {
  let our: Coordinators;
  before(async () => {
    our = await Coordinators.start();
  });
  after(() => our?.[Symbol.asyncDispose]());

  /** Submits jobs alternately to the given managers. */
  async function submitted(name: string, at: readonly Replica[]): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < JOBS; n++) ids.push(await our.submit(at[n % at.length] as Replica, name));
    return ids;
  }

  /** Waits until all of these jobs run, each once. */
  const running = (ids: readonly string[]) =>
    eventually(() =>
      assert.deepEqual(
        ids.map((id) => our.countRuns(id)),
        ids.map(() => 1),
      ),
    );

  test('permits, renewals and reports are accepted, logs are forwarded, and a job is cancelled', async () => {
    const { leader, other } = await our.findLeader();
    await our.create(leader, 'talks');
    const ids = await submitted('talks', [leader, other]);
    await running(ids);
    const [first = '', ...rest] = ids;
    // It is passed on from where the script has only just begun.
    await eventually(async () => {
      const log = await other.outside.call('GET', `/system/logs/talks/${first}`, { as: our.people.alice });
      assert.match(expectStatus(log, 200).text, /^begun$/m);
    });
    expectStatus(await other.outside.call('DELETE', `/system/jobs/talks/${first}`, { as: our.people.alice }), 202);
    await eventually(async () => {
      const job = await other.outside.job(our.people.alice, 'talks', first);
      assert.equal(job.state, 'cancelled', storyOf(job));
    });
    const words = (id: string, path: string) =>
      our.targetRequests.filter((one) => one.path.startsWith(path) && one.path.includes(id));
    const permits = (id: string) => words(id, '/system/config');
    const reports = (id: string) => words(id, '/system/federation/');
    // That it runs is said three times in a lease: one more than the first is a renewal.
    await eventually(() => assert.ok(rest.every((id) => permits(id).length >= 1 && reports(id).length >= 2)));
    our.release('talks');
    await eventually(async () => {
      const jobs = (await our.jobs(other, 'talks')).filter(({ id }) => id !== first);
      for (const job of jobs) assert.equal(job.state, 'succeeded', storyOf(job));
    });
    assert.deepEqual(await our.countWrites('talks'), our.expectedResults(rest));
    for (const id of rest) {
      assert.deepEqual([...new Set(permits(id).map(({ answer }) => answer?.status))], [200]);
      assert.deepEqual([...new Set(reports(id).map(({ answer }) => answer?.status))], [204]);
    }
    assert.equal(our.isLeader(leader), true, 'nobody else did it');
  });

  test('a forwarded change is not accepted twice by different replicas', async () => {
    const { leader, other } = await our.findLeader();
    await our.create(leader, 'recorded');
    const clusters = { nowhere: { endpoint: 'http://127.0.0.1:1' } };
    const members = [member({ id: 'nowhere' }, 'x')];
    const { method, path, headers, body } = await our.forwardChange('recorded', { members, clusters });
    const removal = expectStatus(
      await other.outside.call('DELETE', '/system/federation/recorded', { as: our.people.alice, body: { members } }),
      200,
    );
    assert.doesNotMatch(removal.text, /nowhere/);
    const as = String(headers.authorization);
    const signature = {
      'x-oscar-member': String(headers['x-oscar-member']),
      'content-digest': String(headers['content-digest']),
    };
    for (const { outside } of [leader, other]) {
      const again = await outside.call(method, path, { as, body, headers: signature });
      assert.match(expectStatus(again, 401).text, /already used/);
    }
  });

  const moments = {
    'while jobs are offered': async (name: string) => {
      await eventually(() => assert.ok(our.countOffers(name) > 0));
    },
    'while members have them': async (_name: string, ids: readonly string[]) => running(ids),
    'while their results are written': async (name: string, ids: readonly string[]) => {
      await running(ids);
      our.storeWire.slow(150);
      our.release(name);
      await eventually(async () => assert.ok((await our.countWrites(name)).size > 0));
    },
  };

  for (const [index, [moment, comes]] of Object.entries(moments).entries()) {
    test(`when the leader is killed ${moment}, nothing is lost and nothing is done twice`, ROUND, async () => {
      const name = `killed-${index}`;
      const { leader, other } = await our.findLeader();
      await our.create(other, name);
      const ids = await submitted(name, [leader, other]);
      await comes(name, ids);
      leader.child.kill('SIGKILL');
      ids.push(await our.submit(other, name));
      await our.storeWire.mend();
      our.release(name);
      await our.replica();
      await our.expectOnce(other, name, ids);
    });

    test(`when the leader is paused ${moment}, and goes on when another leads, neither`, ROUND, async () => {
      const name = `paused-${index}`;
      const { leader, other } = await our.findLeader();
      await our.create(other, name);
      const ids = await submitted(name, [leader, other]);
      await comes(name, ids);
      leader.child.kill('SIGSTOP');
      try {
        ids.push(await our.submit(other, name));
        await our.storeWire.mend();
        await eventually(() => assert.ok(our.isLeader(other), 'the other leads'));
        our.release(name);
      } finally {
        leader.child.kill('SIGCONT');
      }
      await our.expectOnce(other, name, ids);
      await eventually(() => assert.equal(our.isLeader(leader), false));
    });
  }
});
