import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { storyOf } from '../support/delegation.ts';
import { expectStatus } from '../support/federation.ts';
import { eventually } from './kill-rounds.ts';
import type { Replica } from './pod-managers.ts';
import { Targets } from './targets.ts';

/** Another manager notices a lost leader after seconds, and pods are slow. */
const ROUND = { timeout: 600_000 };

const FILES = ['a', 'b', 'c', 'd'];

describe('replicas of a target: the origin talks to the follower', { timeout: 3_000_000 }, () => {
  let them: Targets;
  let replicas: Replica[];
  before(async () => {
    them = await Targets.start();
    replicas = await Promise.all([them.replica(), them.replica()]);
  });
  after(() => them?.[Symbol.asyncDispose]());

  async function ranks(): Promise<{ leader: Replica; other: Replica }> {
    replicas = replicas.filter(({ child }) => child.exitCode === null && child.signalCode === null);
    while (replicas.length < 2) replicas.push(await them.replica());
    return eventually(() => {
      const [leader, ...more] = replicas.filter((replica) => them.our.isLeader(replica));
      const other = replicas.find((replica) => replica !== leader);
      assert.ok(leader && other && more.length === 0, 'exactly one manager must lead');
      them.setContact(other);
      return { leader, other };
    });
  }

  /** Waits until all of these jobs run, each once. */
  const running = (ids: readonly string[]) =>
    eventually(() =>
      assert.deepEqual(
        ids.map((id) => them.our.countRuns(id)),
        ids.map(() => 1),
      ),
    );

  test('an offered job runs once, its log is forwarded, and a job is cancelled', ROUND, async () => {
    await ranks();
    await them.create('talks', 'sleep 20');
    const ids = await them.begin('talks', FILES);
    await running(ids);
    const [first = '', second = ''] = ids;
    await eventually(async () => {
      const log = await them.outside.call('GET', `/system/logs/talks/${first}`, { as: them.people.alice });
      assert.match(expectStatus(log, 200).text, /^begun$/m);
    });
    expectStatus(await them.outside.call('DELETE', `/system/jobs/talks/${second}`, { as: them.people.alice }), 202);
    const states = new Map(ids.map((id) => [id, id === second ? 'cancelled' : 'succeeded']));
    await eventually(async () => {
      for (const job of await them.jobs('talks')) assert.equal(job.state, states.get(job.id), storyOf(job));
    });
    const results = await them.outside.keys(them.people.alice, 'talks');
    assert.equal(results.filter((key) => key.startsWith('out/')).length, FILES.length - 1);
    for (const id of ids) assert.equal(them.our.countRuns(id), 1);
  });

  const moments = {
    'while jobs are offered': async (name: string) => {
      await eventually(() => assert.ok(them.countOffers(name) > 0));
    },
    'while they run': async (_: string, ids: readonly string[]) => running(ids),
  };

  for (const [index, [moment, comes]] of Object.entries(moments).entries()) {
    test(`when the leader is killed ${moment}, each has one set of results`, ROUND, async () => {
      const name = `killed-${index}`;
      const { leader } = await ranks();
      await them.create(name, 'sleep 5');
      await comes(name, await them.begin(name, FILES));
      leader.child.kill('SIGKILL');
      await them.expectOnce(name, FILES);
    });

    test(`when the manager that the origin contacts is killed ${moment}, nothing is lost`, ROUND, async () => {
      const name = `deaf-${index}`;
      const { leader, other } = await ranks();
      await them.create(name, 'sleep 5');
      await comes(name, await them.begin(name, FILES));
      other.child.kill('SIGKILL');
      them.setContact(leader);
      await them.expectOnce(name, FILES);
    });

    test(`when the leader is paused ${moment}, and goes on when another leads, nothing is doubled`, ROUND, async () => {
      const name = `paused-${index}`;
      const { leader, other } = await ranks();
      await them.create(name, 'sleep 5');
      await comes(name, await them.begin(name, FILES));
      leader.child.kill('SIGSTOP');
      try {
        await eventually(() => assert.ok(them.our.isLeader(other), 'the other manager does not lead'));
      } finally {
        leader.child.kill('SIGCONT');
      }
      await them.expectOnce(name, FILES);
      await eventually(() => assert.equal(them.our.isLeader(leader), false));
    });
  }
});
