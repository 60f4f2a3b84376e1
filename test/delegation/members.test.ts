import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import {
  copying,
  delegating,
  endedWell,
  inState,
  offersTo,
  onlySucceeded,
  placeOf,
  startDelegation,
  statesOf,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, expectStatus, member, type TestCluster } from '../support/federation.ts';
import { eventually, Meeting, service } from '../support/jobs.ts';
import { type Interference, startWire } from '../support/wire.ts';

let them: Clusters;
const meeting = new Meeting();
before(async () => {
  them = await startDelegation({
    unable: ['oscar-cluster-c'],
    own: {
      'oscar-cluster': { OSCAR_LOCAL_CPU: '1' },
      // This cluster may not connect to stores at private addresses, and has little room.
      'oscar-cluster-c': { OSCAR_PEER_NETWORKS: '10.9.0.0/16', OSCAR_LOCAL_CPU: '0.5' },
    },
  });
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

/**
 * Creates a federation of `first` and then b. Resolves to a function that uploads a file and resolves to its job, and to
 * the reason why `first` did not run it.
 */
async function secondBest(name: string, first: TestCluster, more: Record<string, unknown> = {}) {
  const { origin, people, b } = them;
  const members = [member(first, name), member(b, name, { priority: 1 })];
  await delegating(them, name, members, { script: copying(), ...more });
  return async () => {
    await origin.outside.put(people.alice, `${name}/in/x`, 'x');
    const job = await onlySucceeded(origin, people.alice, name);
    assert.equal(await origin.outside.get(people.alice, `${name}/out/x`), 'x');
    expectStatus(await origin.call('GET', '/health'), 200);
    const refusal = job.decisions.at(-1)?.candidates.find((each) => each.member === `${first.id}/${name}`)?.refusal;
    return { job, refusal };
  };
}

/** Runs `work` while offers to a cluster get this answer. */
async function answeredBy<T>({ wire }: TestCluster, answer: Interference, work: () => Promise<T>): Promise<T> {
  wire.interfere((seen, response, passOn) =>
    seen.method === 'POST' && seen.path.startsWith('/job/') ? answer(seen, response, passOn) : passOn(),
  );
  try {
    return await work();
  } finally {
    wire.interfere();
  }
}

describe('next member: asked after a rejection or a failure', () => {
  const answers: [status: number, name: string, reason: RegExp][] = [
    [401, 'refuses401', /does not let the owner/],
    [403, 'refuses403', /does not let the owner/],
    [429, 'refuses429', /has no room/],
    [424, 'refuses424', /cannot read its input/],
    [410, 'refuses410', /has no such service/],
    [500, 'refuses500', /did not answer/],
  ];
  for (const [status, name, reason] of answers) {
    test(`next member: asked when one answers ${status}${status === 401 ? ', which is asked once only (F6)' : ''}`, async () => {
      const { a, b } = them;
      const upload = await secondBest(name, a);
      const { job, refusal } = await answeredBy(a, (_, response) => void response.writeHead(status).end(), upload);
      assert.equal(placeOf(job), b.id, storyOf(job));
      assert.match(refusal ?? '', reason);
      assert.equal(offersTo(a, name).length, 1);
      assert.equal(offersTo(b, name).length, 1);
    });
  }

  test('next member: asked when one cannot read the input, which it checks before it accepts the job', async () => {
    const { b, c } = them;
    const { job, refusal } = await (await secondBest('unreadable', c))();
    assert.equal(placeOf(job), b.id, storyOf(job));
    assert.equal(refusal, 'cluster "oscar-cluster-c" cannot read its input');
    assert.deepEqual(
      (await c.outside.jobs(c.admin, 'unreadable')).map(({ id }) => id),
      [],
      'no job was created there',
    );
  });

  test('next member: asked when one has no room', async () => {
    const { b, c } = them;
    const { job, refusal } = await (await secondBest('roomless', c, { cpu: '0.8' }))();
    assert.equal(placeOf(job), b.id, storyOf(job));
    assert.match(refusal ?? '', /has no room for it|it needs 0\.8 cores and no node has more than 0(\.\d+)? free/);
  });

  test('next member: asked when the worker of one was deleted', async () => {
    const { a, b, people } = them;
    const upload = await secondBest('deleted', a);
    expectStatus(await a.call('DELETE', '/system/services/deleted', { as: people.alice }), 204);
    const { job, refusal } = await upload();
    assert.equal(placeOf(job), b.id, storyOf(job));
    assert.match(refusal ?? '', /has no such service, or ended it|its owner ended the service there/);
  });

  test('next member: asked when one is unreachable; if all are, the job runs at the origin (F1)', async () => {
    const { origin, a, b, people } = them;
    const upload = await secondBest('away', a);
    await a.wire.cut();
    try {
      const { job, refusal } = await upload();
      assert.equal(placeOf(job), b.id, storyOf(job));
      assert.equal(refusal, 'it did not answer');
      await b.wire.cut();
      await origin.outside.put(people.alice, 'away/in/y', 'y');
      const home = await eventually(async () => {
        const [last] = await origin.outside.jobs(people.alice, 'away');
        assert.ok(last?.object?.key === 'in/y' && last.state === 'succeeded', last && storyOf(last));
        return last;
      });
      assert.equal(placeOf(home), origin.id);
      assert.equal(await origin.outside.get(people.alice, 'away/out/y'), 'y');
      expectStatus(await origin.call('GET', '/health'), 200);
    } finally {
      await a.wire.mend();
      await b.wire.mend();
    }
  });
});

describe('members: at the same manager', () => {
  test('members: one manager can be several members of its own federation', async () => {
    const { origin, people } = them;
    const members = [member(origin, 'circle-1', { priority: 1 }), member(origin, 'circle-2')];
    await delegating(them, 'circle', members, { script: `echo $OSCAR_SERVICE_NAME; ${copying()}` });
    await origin.outside.put(people.alice, 'circle/in/x', 'x');
    const job = await onlySucceeded(origin, people.alice, 'circle');
    assert.equal(job.decisions[0]?.chosen, 'oscar-cluster/circle-2');
    assert.match(job.attempts[0]?.name ?? '', /^circle-2-/);
    assert.equal(await origin.outside.get(people.alice, 'circle/out/x'), 'x');
    const log = await origin.call('GET', `/system/logs/circle/${job.id}`, { as: people.alice });
    assert.match(log.text, /^circle-2$/m);
  });
});

describe('endpoint: a member that is a URL', () => {
  test('endpoint: gets the event and its headers, and no credentials of ours; 200 means done', async () => {
    const { origin, people } = them;
    await using elsewhere = await startWire();
    elsewhere.interfere((_, response) => void response.writeHead(200).end('whatever'));
    const endpoint = {
      type: 'endpoint' as const,
      url: `${elsewhere.url}/hook?x=1`,
      headers: { 'X-Key': 'k', Authorization: 'Own 1' },
    };
    await delegating(them, 'hooked', [endpoint], { script: 'false' });
    const id = await origin.outside.submit(people.alice, 'hooked', 'not { JSON');
    const job = await endedWell(origin, people.alice, 'hooked', id);
    assert.equal(job.decisions[0]?.chosen, endpoint.url);
    const [seen, ...more] = elsewhere.seen;
    assert.deepEqual(more, []);
    assert.deepEqual([seen?.method, seen?.path], ['POST', '/hook?x=1']);
    assert.deepEqual(JSON.parse(seen?.body ?? ''), { storage_provider: 'default', event: 'not { JSON' });
    assert.deepEqual([seen?.headers['x-key'], seen?.headers.authorization], ['k', 'Own 1']);
    assert.deepEqual(
      Object.keys(seen?.headers ?? {}).toSorted(),
      ['authorization', 'connection', 'content-length', 'content-type', 'host', 'x-key'],
      'and that is all',
    );
  });

  test('endpoint: gets no Authorization unless headers name it; after 500 the next member runs the job', async () => {
    const { origin, a, people } = them;
    await using elsewhere = await startWire();
    elsewhere.interfere((_, response) => void response.writeHead(500).end());
    const endpoint = { type: 'endpoint' as const, url: elsewhere.url };
    await delegating(them, 'unhooked', [endpoint, member(a, 'unhooked', { priority: 1 })], {
      script: copying(),
    });
    await origin.outside.put(people.alice, 'unhooked/in/x', 'x');
    const job = await onlySucceeded(origin, people.alice, 'unhooked');
    assert.equal(placeOf(job), a.id, storyOf(job));
    assert.equal(elsewhere.seen.length, 1);
    assert.equal(elsewhere.seen[0]?.headers.authorization, undefined);
    assert.match(job.decisions.at(-1)?.candidates.at(-1)?.refusal ?? '', /answered 500/);
    assert.equal(await origin.outside.get(people.alice, 'unhooked/out/x'), 'x');
  });
});

describe('run once', () => {
  /** Creates a file with a new name in each run, and waits. */
  const countingScript = (name: string) =>
    `touch ${meeting.directory}/ran-${name}-$$; ${meeting.wait(`go-${name}`)}; ${copying()}`;
  const runsOf = (name: string) =>
    readdirSync(meeting.directory).filter((file) => file.startsWith(`ran-${name}-`)).length;

  test('run once: although the offer was sent three times (F13)', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'thrice', [member(a, 'thrice')], { script: countingScript('thrice') });
    await origin.outside.put(people.alice, 'thrice/in/x', 'x');
    await eventually(() => assert.equal(runsOf('thrice'), 1));
    const [offer] = offersTo(a, 'thrice');
    const headers = {
      'x-oscar-member': String(offer?.headers['x-oscar-member']),
      'content-digest': String(offer?.headers['content-digest']),
    };
    const again = () => a.call('POST', '/job/thrice', { headers, body: offer?.body });
    const { name } = await eventually(async () => {
      const [job] = await origin.outside.jobs(people.alice, 'thrice');
      return job?.attempts[0] ?? assert.fail('no report that it runs yet');
    });
    for (const answer of await Promise.all([again(), again()])) {
      assert.equal((expectStatus(answer, 201).json() as { attempt: string }).attempt, name);
    }
    const { offer: order } = JSON.parse(offer?.body ?? '');
    const other = JSON.stringify({ storage_provider: 'default', event: 'another', offer: order });
    expectStatus(await a.call('POST', '/job/thrice', { headers, body: other }), 401);
    meeting.letGo('go-thrice');
    await onlySucceeded(origin, people.alice, 'thrice');
    expectStatus(await again(), 201);
    assert.equal(runsOf('thrice'), 1);
  });

  test('run once: although the origin has room during the offer (F15), which the caller does not wait for (F38)', async () => {
    const { origin, a, people } = them;
    const hog = service('hog', meeting.wait('hog'), { cpu: '1', memory: '16Mi', input: [], output: [] });
    const token = await origin.outside.create(origin.admin, hog);
    const filling = await origin.outside.submit(token, 'hog', 'x');
    await delegating(them, 'claimed', [member(a, 'claimed')], {
      script: countingScript('claimed'),
      federation: { delegate_when: 'saturated' },
    });
    const held = Promise.withResolvers<void>();
    const hold: Interference = async (_, __, passOn) => {
      await held.promise;
      await passOn();
    };
    await answeredBy(a, hold, async () => {
      const id = await origin.outside.submit(people.alice, 'claimed', 'x');
      await inState(origin, people.alice, 'claimed', id, 'offering');
      expectStatus(await origin.call('DELETE', `/system/jobs/hog/${filling}`, { as: origin.admin }), 202);
      const brief = await origin.outside.create(origin.admin, service('brief', 'true', { input: [], output: [] }));
      await endedWell(origin, origin.admin, 'brief', await origin.outside.submit(brief, 'brief', 'x'));
      await inState(origin, people.alice, 'claimed', id, 'offering');
      assert.equal(runsOf('claimed'), 0);
      held.resolve();
      meeting.letGo('go-claimed');
      const job = await endedWell(origin, people.alice, 'claimed', id);
      assert.equal(placeOf(job), a.id);
      assert.equal(runsOf('claimed'), 1);
      assert.deepEqual(statesOf(job), [
        'accepted Accepted',
        'queued Waiting',
        'offering Offered',
        'delegated Permitted',
        'committing Finished',
        'succeeded Completed',
      ]);
    });
  });

  test('run once: a delegated job is not delegated again, not even in a mesh: all offers come from the origin (F12)', async () => {
    const { origin, a, b, people, all } = them;
    const fill = service('fill', meeting.wait('fill'), { cpu: '2', memory: '16Mi', input: [], output: [] });
    const full = await Promise.all(
      [a, b].map(async (at) => ({
        at,
        id: await at.outside.submit(await at.outside.create(at.admin, fill), 'fill', 'x'),
      })),
    );
    await Promise.all(full.map(({ at, id }) => at.outside.running(at.admin, 'fill', id)));
    await delegating(them, 'mesh', [member(a, 'mesh'), member(b, 'mesh')], {
      script: copying(),
      federation: { topology: 'mesh' },
    });
    await origin.outside.put(people.alice, 'mesh/in/x', 'x');
    assert.equal(placeOf(await onlySucceeded(origin, people.alice, 'mesh')), origin.id);
    meeting.letGo('fill');
    const offers = all.flatMap(({ wire }) =>
      wire.seen.filter(({ path, method }) => method === 'POST' && path.startsWith('/job/')),
    );
    assert.deepEqual([...new Set(offers.map(({ headers }) => headers['x-delegated-from']))], [origin.id]);
  });
});
