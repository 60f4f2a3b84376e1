import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import { Secret } from '../../lib/secret.ts';
import type { JobRecord } from '../../model/job/index.ts';
import { eventually } from '../../ports/conformance/eventually.ts';
import { idOf, openScene, type Scene } from './origin.fixture.ts';

const offersTo = (scene: Scene, id: string) => scene.target(id).offers.map(({ offer }) => offer.epoch);
const memberAt = (id: string) => ({ type: 'oscar', cluster_id: id, service_name: `demo-${id}` });
const isDelegated = ({ state }: JobRecord) => state === 'delegated';

test('offer: after a rejection the next member is asked with a new epoch, and the record has the reason', async () => {
  await using scene = await openScene();
  scene.fill();
  scene.target('b').plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  const record = await scene.until(key, isDelegated);
  assert.deepEqual(record.placement && [record.placement.member, record.placement.epoch], [idOf('c'), 2]);
  assert.deepEqual(
    record.decisions.map(({ chosen, candidates }) => [
      chosen,
      candidates.map(({ member, refusal }) => [member, refusal]),
    ]),
    [
      [
        idOf('b'),
        [
          [idOf('b'), undefined],
          [idOf('c'), undefined],
        ],
      ],
      [
        idOf('c'),
        [
          [idOf('c'), undefined],
          [idOf('b'), 'no-room'],
        ],
      ],
    ],
  );
});

test('offer: a job that all members reject waits with their reasons, is offered again later, and runs at the origin when there is free capacity', async () => {
  await using scene = await openScene();
  scene.fill();
  for (const id of ['b', 'c']) scene.target(id).plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  const waits = await scene.until(key, ({ message }) => message.startsWith('no member'));
  assert.equal(waits.state, 'queued');
  assert.equal(waits.message, `no member could accept it: ${idOf('b')}, ${idOf('c')}: no-room`);
  await eventually(() => assert.equal(scene.manager.current.line.waiting, 1));
  scene.clock.pass(9_000);
  assert.deepEqual(offersTo(scene, 'b'), [1]);
  scene.clock.pass(2_000);
  await eventually(() =>
    assert.deepEqual(
      [offersTo(scene, 'b'), offersTo(scene, 'c')],
      [
        [1, 3],
        [2, 4],
      ],
    ),
  );
  await scene.until(key, ({ state, epoch }) => state === 'queued' && epoch === 4);
  await eventually(() => assert.equal(scene.manager.current.line.waiting, 1));
  scene.empty();
  const runs = await scene.until(key, ({ state }) => state === 'running');
  assert.equal(runs.epoch, 5);
  scene.clock.pass(60_000);
  assert.deepEqual(offersTo(scene, 'b'), [1, 3]);
});

test("offer: the definition's rescheduler_threshold takes precedence over the operator's", async () => {
  await using scene = await openScene({ federation: { rescheduler_threshold: 60 } });
  scene.fill();
  for (const id of ['b', 'c']) scene.target(id).plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  await scene.until(key, ({ message }) => message.startsWith('no member'));
  await eventually(() => assert.equal(scene.manager.current.line.waiting, 1));
  scene.clock.pass(59_000);
  assert.deepEqual(offersTo(scene, 'b'), [1]);
  scene.clock.pass(2_000);
  await eventually(() => assert.deepEqual(offersTo(scene, 'b'), [1, 3]));
});

test('offer: if a member does not answer and has no permit, the next one is asked at once, and a permit for the old epoch is rejected', async () => {
  await using scene = await openScene();
  scene.fill();
  scene.target('b').plays = ['silent'];
  const key = await scene.submit();
  const record = await scene.until(key, isDelegated);
  assert.equal(record.placement?.member, idOf('c'));
  const late = scene.target('b').origin?.permit({ job: key, epoch: 1 });
  await assert.rejects(late ?? Promise.resolve(), { code: 'fenced' });
  assert.deepEqual((await scene.job(key)).placement, record.placement);
});

test('offer: a member that got a permit and does not answer is sent the same offer until it answers', async () => {
  await using scene = await openScene();
  scene.fill();
  scene.target('b').plays = ['take-unheard', 'silent', 'take'];
  const key = await scene.submit();
  await scene.until(key, isDelegated);
  for (const count of [2, 3]) {
    await eventually(() => assert.ok(scene.target('b').offers.length >= count - 1));
    await scene.passing(() => assert.equal(scene.target('b').offers.length, count));
  }
  assert.deepEqual(offersTo(scene, 'b'), [1, 1, 1]);
  assert.deepEqual(offersTo(scene, 'c'), []);
  assert.equal(scene.target('b').taken.size, 1);
});

test('offer: if a repeated offer is rejected, the next member is asked', async () => {
  await using scene = await openScene();
  scene.fill();
  scene.target('b').plays = ['permit-silent', { refuse: 'input-unreadable' }];
  const key = await scene.submit();
  await scene.until(key, isDelegated);
  await scene.passing(() => assert.equal(scene.target('b').offers.length, 2));
  const record = await scene.until(key, ({ state, epoch }) => state === 'delegated' && epoch === 2);
  assert.equal(record.placement?.member, idOf('c'));
});

test('offer: a job that has started at the origin meanwhile is not offered', async () => {
  await using scene = await openScene();
  scene.fill();
  const key = await scene.submit();
  const { delegator } = scene.manager.current;
  await scene.until(key, isDelegated);
  const before = scene.target('b').offers.length;
  delegator.consider(key, 'overflow');
  await eventually(async () => assert.equal((await scene.job(key)).epoch, 1));
  assert.equal(scene.target('b').offers.length, before);
});

test('offer: members that are not created yet, or are leaving, get no offers', async () => {
  await using scene = await openScene();
  await scene.changeLedger((ledger) => ({
    ...ledger,
    members: ledger.members.map((each) => ({ ...each, state: each.clusterId === 'b' ? 'leaving' : 'wanted' })),
  }));
  scene.fill();
  const key = await scene.submit();
  const record = await scene.until(key, ({ message }) => message.startsWith('no member'));
  assert.match(record.message, /b: it is leaving the federation; .*c: the service is not made there yet/);
  assert.deepEqual(offersTo(scene, 'b'), []);
});

test('offer: a member that was removed from the definition gets no offers, even if the ledger still has it', async () => {
  await using scene = await openScene({ federation: { members: [{ ...memberAt('c'), priority: 3 }] } });
  scene.fill();
  const record = await scene.until(await scene.submit(), isDelegated);
  assert.equal(record.placement?.member, idOf('c'));
  assert.deepEqual(
    record.decisions[0]?.candidates.map(({ member, refusal }) => [member, refusal]),
    [
      [idOf('c'), undefined],
      [idOf('b'), 'it is leaving the federation'],
    ],
  );
});

test('offer: with `always` the origin is the first candidate, and jobs that would wait there are delegated', async () => {
  await using scene = await openScene({ federation: { delegate_when: 'always' } });
  const first = await scene.submit();
  const runs = await scene.until(first, ({ state }) => state === 'running');
  assert.equal(runs.decisions.at(-1)?.chosen, 'here/demo');
  const second = await scene.submit();
  const record = await scene.until(second, isDelegated);
  assert.equal(record.placement?.member, idOf('b'));
});

test("offer: `self` sets the origin's position among the candidates", async () => {
  await using scene = await openScene({ federation: { delegate_when: 'always', self: { priority: 5 } } });
  const key = await scene.submit();
  const record = await scene.until(key, isDelegated);
  assert.equal(record.placement?.member, idOf('b'));
});

test("offer: with `always` a job that no member accepts waits in the origin's queue", async () => {
  await using scene = await openScene({ federation: { delegate_when: 'always' } });
  scene.fill();
  for (const id of ['b', 'c']) scene.target(id).plays = [{ refuse: 'no-room' }];
  const key = await scene.submit();
  await scene.until(key, ({ message }) => message.startsWith('no member'));
  await eventually(() => assert.equal(scene.manager.current.line.waiting, 1));
  scene.empty();
  await scene.until(key, ({ state }) => state === 'running');
});

test('offer: in a star, a job that entered at a member waits for that member only', async () => {
  await using scene = await openScene({ federation: { topology: 'star' } });
  scene.target('c').plays = ['silent', { refuse: 'failed' }, 'take'];
  const key = await scene.submit('{}', { openedBy: idOf('c'), byToken: true });
  await eventually(() => assert.equal(scene.target('c').offers.length, 1));
  for (const count of [2, 3]) {
    await scene.passing(() => assert.equal(scene.target('c').offers.length, count));
  }
  const record = await scene.until(key, isDelegated);
  assert.equal(record.placement?.member, idOf('c'));
  assert.ok(scene.target('c').offers.every(({ offer }) => offer.pinned));
  assert.deepEqual(offersTo(scene, 'b'), []);
  assert.equal(scene.manager.current.line.waiting, 0);
});

test('offer: in a mesh, a job runs where it entered, or at another member if there is no free capacity', async () => {
  await using scene = await openScene({ federation: { topology: 'mesh' } });
  const opened = { openedBy: idOf('c'), byToken: true };
  scene.fill();
  const first = await scene.submit('{}', opened);
  const record = await scene.until(first, isDelegated);
  assert.equal(record.placement?.member, idOf('c'));
  assert.equal(scene.target('c').offers[0]?.offer.pinned, false);
  scene.target('c').plays = [{ refuse: 'no-room' }];
  const second = await scene.submit('{}', opened);
  const other = await scene.until(second, isDelegated);
  assert.equal(other.placement?.member, idOf('b'));
});

test('offer: a job that entered at a former member fails with that reason', async () => {
  await using scene = await openScene({ federation: { topology: 'star' } });
  const key = await scene.submit('{}', { openedBy: 'z/demo-z', byToken: true });
  const record = await scene.until(key, ({ state }) => state === 'failed');
  assert.equal(record.timeline.at(-1)?.reason, 'MemberGone');
});

test('offer: a member with a member key gets no token of the owner, and none is requested', async () => {
  const getOwnerToken = () => Promise.reject(new Error('no token is requested'));
  await using scene = await openScene({ deps: { getOwnerToken } });
  scene.fill();
  await scene.until(await scene.submit(), isDelegated);
  assert.equal(scene.target('b').offers[0]?.as.bearer, undefined);
});

test('offer: a Go manager gets a token of the owner for that cluster; without one the job waits with the reason', async () => {
  const expired = new OscarError('credentials-expired', 'the refresh token has expired: bring a new one');
  let getOwnerToken = async (_: unknown, cluster: string) => new Secret(`token for ${cluster}`);
  await using scene = await openScene({
    clusters: ['b'],
    upstream: ['b'],
    deps: { getOwnerToken: (service, cluster) => getOwnerToken(service, cluster) },
  });
  scene.fill();
  await scene.until(await scene.submit(), isDelegated);
  assert.equal(scene.target('b').offers[0]?.as.bearer?.reveal(), 'token for b');
  getOwnerToken = () => Promise.reject(expired);
  const key = await scene.submit();
  const record = await scene.until(key, ({ message }) => message.startsWith('no member'));
  assert.match(record.message, /: the refresh token has expired: bring a new one$/);
  assert.equal(record.state, 'queued');
  assert.equal(scene.target('b').offers.length, 1);
  getOwnerToken = async () => new Secret('new');
  await scene.passing(() => assert.equal(scene.target('b').offers.length, 2));
  await scene.until(key, isDelegated);
});

test('offer: services of the administrator need no token', async () => {
  const getOwnerToken = () => Promise.reject(new Error('nobody is asked'));
  await using scene = await openScene({
    clusters: ['b'],
    upstream: ['b'],
    owner: 'cluster_admin',
    deps: { getOwnerToken },
  });
  scene.fill();
  await scene.until(await scene.submit(), isDelegated);
  assert.equal(scene.target('b').offers[0]?.as.bearer, undefined);
});

test('offer: a job that needs keys of another provider runs at the origin, and no member is asked again', async () => {
  const provider = {
    minio: { far: { endpoint: 'https://far.example', access_key: 'a', secret_key: 'b', region: 'r' } },
  };
  await using scene = await openScene({ body: { storage_providers: provider } });
  scene.fill();
  const event = {
    storage_provider: 'far',
    event: JSON.stringify({
      Records: [
        {
          eventSource: 'minio:s3',
          eventName: 's3:ObjectCreated:Put',
          s3: { bucket: { name: 'x' }, object: { key: 'y' } },
        },
      ],
    }),
  };
  const key = await scene.submit(JSON.stringify(event));
  const record = await scene.until(key, ({ message }) => message.includes('keys'));
  assert.match(record.message, /its input is at minio\.far/);
  assert.equal(record.timeline.at(-1)?.reason, 'StaysHere');
  scene.clock.pass(60_000);
  assert.deepEqual(offersTo(scene, 'b'), []);
  scene.empty();
  await scene.until(key, ({ state }) => state === 'running');
});

test('offer: a burst spreads over the members by free capacity, because jobs in flight count', async () => {
  await using scene = await openScene({ clusters: ['b', 'c', 'd'], federation: { delegation: 'load-based' } });
  scene.fill();
  const rooms = { b: 40_000, c: 20_000, d: 20_000 };
  for (const [id, cpu] of Object.entries(rooms)) {
    scene.target(id).snapshot = { nodes: [{ cpu, memory: 2 ** 40, gpu: 0 }], freeCpu: cpu, nodeCount: 1, age: 0 };
  }
  // The first job makes the origin ask the members for their free capacity.
  await scene.until(await scene.submit(), isDelegated);
  const { board } = scene.manager.current;
  await eventually(() => assert.ok(['b', 'c', 'd'].every((id) => board.snapshotFor(`https://${id}.example`))));
  const keys = await Promise.all(Array.from({ length: 60 }, () => scene.submit()));
  for (const key of keys) await scene.until(key, isDelegated);
  const counts = ['b', 'c', 'd'].map((id) => offersTo(scene, id).length);
  assert.ok(
    counts.every((count) => count >= 10 && count <= 40),
    `they got ${counts.join(', ')}`,
  );
});

test("offer: with `always` a burst fills the origin's free capacity, and the rest is delegated at once", async () => {
  await using scene = await openScene({ cpu: 2000, federation: { delegate_when: 'always' } });
  const keys = await Promise.all(Array.from({ length: 60 }, () => scene.submit()));
  const jobs = await Promise.all(
    keys.map((key) => scene.until(key, ({ state }) => state === 'running' || state === 'delegated')),
  );
  const chosen = jobs.map(({ decisions }) => decisions[0]?.chosen);
  assert.equal(chosen.filter((id) => id === 'here/demo').length, 2);
  assert.equal(jobs.filter(({ state }) => state === 'delegated').length, 58);
});

test('offer: with `always` and `load-based` a burst spreads, even if the origin has the most free capacity', async () => {
  const federation = { delegate_when: 'always', delegation: 'load-based' };
  await using scene = await openScene({ cpu: 30_000, federation });
  const cpu = 16_000;
  for (const id of ['b', 'c']) {
    scene.target(id).snapshot = { nodes: [{ cpu, memory: 2 ** 40, gpu: 0 }], freeCpu: cpu, nodeCount: 1, age: 0 };
  }
  // The first job makes the origin ask the members for their free capacity.
  await scene.submit();
  const { board } = scene.manager.current;
  await eventually(() => assert.ok(['b', 'c'].every((id) => board.snapshotFor(`https://${id}.example`))));
  const keys = await Promise.all(Array.from({ length: 60 }, () => scene.submit()));
  const jobs = await Promise.all(
    keys.map((key) => scene.until(key, ({ state }) => state === 'running' || state === 'delegated')),
  );
  const here = jobs.filter(({ state }) => state === 'running').length;
  assert.ok(here >= 20 && here <= 29, `${here} run here`);
});

for (const delegation of ['load-based', 'topsis']) {
  test(`offer: ${delegation}: the first burst spreads before any member has reported its free capacity`, async () => {
    await using scene = await openScene({ federation: { delegation } });
    scene.fill();
    const unheard = Promise.withResolvers<never>();
    for (const id of ['b', 'c']) scene.target(id).status = () => unheard.promise;
    const keys = await Promise.all(Array.from({ length: 40 }, () => scene.submit()));
    for (const key of keys) await scene.until(key, isDelegated);
    assert.deepEqual([offersTo(scene, 'b').length, offersTo(scene, 'c').length], [20, 20]);
  });
}

test('offer: many waiting jobs share the finding that all members are full', async () => {
  await using scene = await openScene();
  scene.fill();
  const none = { nodes: [{ cpu: 0, memory: 0, gpu: 0 }], freeCpu: 0, nodeCount: 1, age: 0 };
  for (const id of ['b', 'c']) scene.target(id).snapshot = none;
  const { board } = scene.manager.current;
  await scene.until(await scene.submit(), isDelegated);
  await eventually(() => assert.ok(['b', 'c'].every((id) => board.snapshotFor(`https://${id}.example`))));
  const keys = await Promise.all(Array.from({ length: 20 }, () => scene.submit()));
  for (const key of keys) {
    const { message } = await scene.until(key, (job) => job.message.startsWith('no member'));
    assert.match(message, /it needs 1 core and no node has more than 0 free/);
  }
  assert.equal(offersTo(scene, 'b').length, 1);
});
