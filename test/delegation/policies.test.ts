import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { POLICY_NAMES } from '../../src/model/service/index.ts';
import {
  allEnded,
  copying,
  delegating,
  endedWell,
  onlySucceeded,
  placeOf,
  startDelegation,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, member, type TestCluster } from '../support/federation.ts';
import { eventually, Meeting, type SeenJob, service } from '../support/jobs.ts';
import { orderOf, sign } from '../support/signed.ts';

let them: Clusters;
const meeting = new Meeting();
before(async () => {
  them = await startDelegation({
    own: {
      'oscar-cluster': { OSCAR_LOCAL_CPU: '1' },
      'oscar-cluster-a': { OSCAR_LOCAL_CPU: '1' },
      'oscar-cluster-b': { OSCAR_LOCAL_CPU: '4' },
    },
  });
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

const three = (name: string, priorities = [0, 0, 0]) =>
  [them.a, them.b, them.c].map((each, index) => member(each, name, { priority: priorities[index] }));

/** Uploads files one after the other until the decision about a job used the snapshots of all members. */
async function decidedByFigures(name: string): Promise<SeenJob> {
  const { origin, people } = them;
  for (let n = 1; n <= 20; n++) {
    await origin.outside.put(people.alice, `${name}/in/${n}`, `file ${n}`);
    const [job] = await allEnded(origin, people.alice, name, n);
    const [decision] = job?.decisions ?? [];
    assert.equal(await origin.outside.get(people.alice, `${name}/out/${n}`), `file ${n}`);
    if (job && decision?.candidates.every(({ score }) => score !== undefined)) return job;
  }
  throw new Error('no decision used the snapshots of all members');
}

describe('delegate_when: saturated', () => {
  /** Many more than the one slot of the origin, and over soon: topsis once kept them all. */
  const BURST = 16;

  for (const policy of POLICY_NAMES) {
    test(`${policy}: members get jobs of the first burst of a service, although nothing is known of its jobs yet`, async () => {
      const { origin, people } = them;
      const name = `first-${policy}`;
      await delegating(them, name, three(name), {
        script: `sleep 0.2\n${copying()}`,
        federation: { delegation: policy, delegate_when: 'saturated', self: {} },
      });
      const files = Array.from({ length: BURST }, (_, n) => String(n));
      await Promise.all(files.map((file) => origin.outside.put(people.alice, `${name}/in/${file}`, file)));
      const jobs = await allEnded(origin, people.alice, name, BURST);
      assert.ok(
        jobs.some((job) => placeOf(job) !== origin.id),
        jobs.map(storyOf).join('\n'),
      );
    });
  }
});

describe('delegate_when: always', () => {
  test('random: different members process the files of the origin, and all results are in its bucket', async () => {
    const { origin, people } = them;
    await delegating(them, 'dice', three('dice'), {
      script: copying(),
      federation: { delegation: 'random', self: { weight: 0 } },
    });
    const names = Array.from({ length: 14 }, (_, n) => `f${String(n).padStart(2, '0')}`);
    await Promise.all(names.map((name) => origin.outside.put(people.alice, `dice/in/${name}`, name)));
    const jobs = await allEnded(origin, people.alice, 'dice', names.length);
    const places = new Set(jobs.map(placeOf));
    assert.ok(places.size > 1, [...places].join());
    assert.ok(!places.has(origin.id));
    for (const name of names) assert.equal(await origin.outside.get(people.alice, `dice/out/${name}`), name);
    assert.ok(jobs.every(({ decisions }) => decisions.every(({ policy }) => policy === 'random')));
  });

  test('random: members with weight 0 get no jobs while another member is left', async () => {
    const { origin, people, b } = them;
    await delegating(them, 'loaded-dice', three('loaded-dice'), {
      script: copying(),
      federation: {
        delegation: { mode: 'random', weights: { [them.a.id]: 0, [b.id]: 5, [them.c.id]: 0 } },
        self: { weight: 0 },
      },
    });
    const names = ['1', '2', '3', '4'];
    await Promise.all(names.map((name) => origin.outside.put(people.alice, `loaded-dice/in/${name}`, name)));
    const jobs = await allEnded(origin, people.alice, 'loaded-dice', names.length);
    assert.deepEqual(
      jobs.map(placeOf),
      names.map(() => b.id),
    );
  });

  test('static: the member with the lowest priority is chosen, also if no policy is named (F4)', async () => {
    const { origin, people, b } = them;
    for (const delegation of ['static', undefined]) {
      const name = delegation ?? 'unnamed';
      await delegating(them, name, three(name, [2, 1, 3]), { script: copying(), federation: { delegation } });
      await origin.outside.put(people.alice, `${name}/in/x`, 'x');
      const job = await onlySucceeded(origin, people.alice, name);
      assert.equal(placeOf(job), b.id);
      assert.deepEqual(job.decisions[0]?.policy, 'static');
      // A member may still be full with jobs of earlier tests, and is then excluded.
      const able = job.decisions[0]?.candidates.filter(({ refusal }) => refusal === undefined) ?? [];
      const places = able.map((each) => each.member.split('/')[0]);
      const order = [b.id, them.a.id, them.c.id, origin.id];
      assert.deepEqual(
        places,
        order.filter((id) => places.includes(id)),
      );
      assert.equal(places[0], b.id);
      assert.equal(await origin.outside.get(people.alice, `${name}/out/x`), 'x');
    }
  });

  test('static: the origin is first among equal priorities', async () => {
    const { origin, people } = them;
    await delegating(them, 'equals', three('equals'), { script: copying(), federation: { self: {} } });
    await origin.outside.put(people.alice, 'equals/in/x', 'x');
    assert.equal(placeOf(await onlySucceeded(origin, people.alice, 'equals')), origin.id);
  });

  for (const [policy, defects] of [
    ['load-based', 'F5'],
    ['topsis', 'F2, F3'],
  ] as const) {
    test(`${policy}: the cluster with most free capacity is chosen once all snapshots are known (${defects})`, async () => {
      const { b } = them;
      await delegating(them, policy, three(policy), {
        script: copying(),
        cpu: '100m',
        federation: { delegation: policy },
      });
      const job = await decidedByFigures(policy);
      const [decision] = job.decisions;
      assert.deepEqual(
        [decision?.policy, decision?.chosen, placeOf(job)],
        [policy, `${b.id}/${policy}`, b.id],
        storyOf(job),
      );
      const scores = decision?.candidates.map(({ score = Infinity }) => score) ?? [];
      assert.equal(scores.length, 4);
      assert.deepEqual(
        scores,
        scores.toSorted((x, y) => x - y),
      );
    });
  }
});

describe('delegate_when: saturated', () => {
  /** A script that waits and uses little CPU, because sixty of them run at once. */
  const patient = (name: string) =>
    `while [ -d ${meeting.directory} ] && [ ! -e ${meeting.directory}/${name} ]; do sleep 0.5; done`;

  /** Sixty processes start, four managers in one process follow them, and other tests run at the same time. */
  const BURST_PATIENCE = 120_000;

  /** Counts the jobs whose last attempt is or was at a cluster. */
  const spread = (jobs: readonly SeenJob[]) => {
    const places = jobs.map(placeOf);
    return (at: TestCluster) => places.filter((place) => place === at.id).length;
  };

  test('saturated: of sixty jobs at once, those that fit run at the origin, the rest spread over members by free capacity (F16), with one token (F10)', async () => {
    const { origin, a, b, c, people } = them;
    await delegating(them, 'burst', three('burst'), {
      script: `${patient('burst')}; ${copying()}`,
      memory: '16Mi',
      federation: { delegate_when: 'saturated', delegation: 'load-based', rescheduler_threshold: 1 },
    });
    const exchanged = people.issuer.requests.token;
    const names = Array.from({ length: 60 }, (_, n) => `f${String(n).padStart(2, '0')}`);
    await Promise.all(names.map((name) => origin.outside.put(people.alice, `burst/in/${name}`, name)));
    const at = await eventually(async () => {
      const jobs = await origin.outside.jobs(people.alice, 'burst');
      assert.equal(
        jobs.filter(({ message }) => message === 'the script runs').length,
        60,
        jobs.map(storyOf).join('\n'),
      );
      return spread(jobs);
    }, BURST_PATIENCE).finally(() => meeting.letGo('burst'));
    const counts = [origin, a, b, c].map(at);
    assert.equal(at(origin), 10, `the origin is full: ${counts.join()}`);
    assert.ok(at(a) <= 10 && at(b) <= 40 && at(c) <= 20, `no member has more than fits: ${counts.join()}`);
    assert.ok(at(b) >= 15 && at(c) >= 1, `not all at one member: ${counts.join()}`);
    assert.ok(people.issuer.requests.token - exchanged <= 1, 'one exchange for all of them');
    await allEnded(origin, people.alice, 'burst', 60, BURST_PATIENCE);
    const results = (await origin.outside.keys(people.alice, 'burst')).filter((key) => key.startsWith('out/'));
    assert.deepEqual(
      results,
      names.map((name) => `out/${name}`),
    );
  });

  test('saturated: with random and topsis, a job is delegated only if the origin has no room', async () => {
    const { origin, people } = them;
    const filler = service('filler', meeting.wait('filler'), { cpu: '1', memory: '16Mi', input: [], output: [] });
    const token = await origin.outside.create(origin.admin, filler);
    const policies = ['random', 'topsis'];
    for (const delegation of policies) {
      const name = `full-${delegation}`;
      const federation = { delegate_when: 'saturated', delegation };
      await delegating(them, name, three(name), { script: copying(), federation });
      await origin.outside.put(people.alice, `${name}/in/1`, '1');
      assert.equal(placeOf(await onlySucceeded(origin, people.alice, name)), origin.id);
    }
    await origin.outside.running(origin.admin, 'filler', await origin.outside.submit(token, 'filler', 'x'));
    for (const delegation of policies) {
      const name = `full-${delegation}`;
      await origin.outside.put(people.alice, `${name}/in/2`, '2');
      const [job] = await allEnded(origin, people.alice, name, 2);
      assert.ok(job && placeOf(job) !== origin.id, job && storyOf(job));
      assert.deepEqual([job.state, job.decisions[0]?.policy], ['succeeded', delegation]);
      assert.equal(await origin.outside.get(people.alice, `${name}/out/2`), '2');
    }
    meeting.letGo('filler');
  });

  test('saturated: a job that fits nowhere waits, and is offered again when a member has room (rescheduler_threshold)', async () => {
    const { origin, a, people } = them;
    const hog = service('hog', meeting.wait('hog'), { cpu: '1', memory: '16Mi', input: [], output: [] });
    const hogs = await Promise.all([origin, a].map((at) => at.outside.create(at.admin, hog)));
    await origin.outside.submit(hogs[0] ?? '', 'hog', 'x');
    const there = await a.outside.submit(hogs[1] ?? '', 'hog', 'x');
    await a.outside.running(a.admin, 'hog', there);
    await delegating(them, 'waits', [member(a, 'waits')], {
      script: copying(),
      federation: { delegate_when: 'saturated', rescheduler_threshold: 1 },
    });
    await origin.outside.put(people.alice, 'waits/in/x', 'x');
    await eventually(async () => {
      const [job] = await origin.outside.jobs(people.alice, 'waits');
      assert.equal(job?.state, 'queued');
      assert.match(job.message, /no member could accept it: oscar-cluster-a\/waits: /);
      assert.match(job.message, /no node has more than 0 free|has no room/);
    });
    expectOk(await a.call('DELETE', `/system/jobs/hog/${there}`, { as: a.admin }));
    const job = await onlySucceeded(origin, people.alice, 'waits');
    assert.equal(placeOf(job), a.id);
    assert.equal(await origin.outside.get(people.alice, 'waits/out/x'), 'x');
    meeting.letGo('hog');
  });
});

test('status: a cluster reports to its coordinators how many jobs wait there, and how long recent jobs took', async () => {
  const { a } = them;
  await delegating(them, 'figures', [member(a, 'figures')], { script: copying() });
  const long = service('long', meeting.wait('long'), { cpu: '1', memory: '16Mi', input: [], output: [] });
  const token = await a.outside.create(a.admin, long);
  const ids = await Promise.all([1, 2, 3].map(() => a.outside.submit(token, 'long', 'x')));
  const asked = { method: 'GET', path: '/system/status' };
  const told = async () => {
    const { text, json } = await a.call(asked.method, asked.path, { headers: sign(orderOf(a, 'figures'), asked) });
    return { text, ...(json() as { readonly pending?: number; readonly mean_duration?: number }) };
  };
  await eventually(async () => {
    const { pending, text } = await told();
    assert.equal(pending, 2, text);
  });
  meeting.letGo('long');
  for (const id of ids) await endedWell(a, a.admin, 'long', id);
  const { pending, mean_duration = 0, text } = await told();
  assert.ok(pending === 0 && mean_duration > 0, text);
});

const expectOk = ({ status, text }: { readonly status: number; readonly text: string }) =>
  assert.ok(status < 300, `${status}: ${text}`);
