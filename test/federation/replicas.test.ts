import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type Clusters,
  create,
  expectStatus,
  federated,
  ids,
  member,
  read,
  type SeenFederation,
  services,
  startClusters,
  states,
  status,
} from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import { eventually } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  // The interval is longer than these tests, so nothing depends on a periodic check.
  const settings = { OIDC_CLIENT_ID: 'oscar', OSCAR_RECONCILE_INTERVAL: '3600' };
  them = await startClusters({ registered: true, settings });
});
after(() => them[Symbol.asyncDispose]());

/** A service with a member at a, and a valid refresh token. */
async function granted(name: string) {
  const { refreshToken } = await them.people.issuer.tokensFor(ALICE);
  const environment = { secrets: { refresh_token: refreshToken } };
  await create(them.origin, them.people.alice, federated(name, [member(them.a, `${name}1`)], {}, { environment }));
}

test('service token: a replica that it adds is created at once, with the grant of the owner', async () => {
  const { origin, b, people } = them;
  await granted('token');
  const as = `Bearer ${(await read(origin, people.alice, 'token')).token}`;
  const body = { replicas: [member(b, 'token2')] };
  const added = expectStatus(await origin.call('POST', '/system/replicas/token', { as, body }), 200);
  assert.equal((added.json() as SeenFederation).warnings, undefined, added.text);
  assert.deepEqual(states(await status(origin, people.alice, 'token')), [
    'oscar-cluster-a/token1: ready',
    'oscar-cluster-b/token2: ready',
  ]);
  const [owner, there] = [await read(origin, people.alice, 'token'), await read(b, people.alice, 'token2')];
  assert.equal(there.owner, owner.owner);
});

interface Pending {
  readonly pending?: readonly {
    readonly member: string;
    readonly reason: string;
    readonly next_attempt_seconds: number;
  }[];
}

test('wait: an addition says what is pending and for how long; with ?wait it is answered when the members are created', async () => {
  const { origin, b, people } = them;
  await granted('wait');
  const as = `Bearer ${(await read(origin, people.alice, 'wait')).token}`;
  const add = (service: string, query = '') =>
    origin.call('POST', `/system/replicas/wait${query}`, { as, body: { replicas: [member(b, service)] } });
  const pendingIn = (answer: { json(): unknown }) => (answer.json() as Pending).pending;

  for (const wrong of ['x', '61', '-1']) {
    assert.match(
      expectStatus(await add('wait2', `?wait=${wrong}`), 400).text,
      /^wait: must be a number of seconds up to 60/,
    );
  }
  await b.wire.cut();
  const [pending] = pendingIn(expectStatus(await add('wait2'), 200)) ?? [];
  assert.equal(pending?.member, 'oscar-cluster-b/wait2');
  assert.match(pending.reason, /cannot be reached/);
  assert.equal(pending.next_attempt_seconds, 3960);

  const seen = b.wire.seen.length;
  const bounded = expectStatus(await add('wait2', '?wait=1'), 200);
  assert.equal(pendingIn(bounded)?.length, 1, 'the wait ends');
  const waiting = add('wait2', '?wait=60');
  await b.wire.mend();
  const done = expectStatus(await waiting, 200);
  assert.equal(pendingIn(done), undefined, done.text);
  assert.ok(b.wire.seen.length > seen);
  assert.deepEqual(states(await status(origin, people.alice, 'wait')), [
    'oscar-cluster-a/wait1: ready',
    'oscar-cluster-b/wait2: ready',
  ]);
});

test('removal: a replica that was never created is gone at once, although its cluster cannot be reached', async () => {
  const { origin, b, people } = them;
  const as = people.alice;
  await granted('never');
  await b.wire.cut();
  try {
    const body = { replicas: [member(b, 'never2')] };
    expectStatus(await origin.call('POST', '/system/replicas/never', { as, body }), 200);
    assert.deepEqual(states(await status(origin, as, 'never')), [
      'oscar-cluster-a/never1: ready',
      'oscar-cluster-b/never2: pending',
    ]);
    expectStatus(await origin.call('DELETE', '/system/replicas/never', { as, body }), 200);
    assert.deepEqual(states(await status(origin, as, 'never')), ['oscar-cluster-a/never1: ready']);
  } finally {
    await b.wire.mend();
  }
  assert.deepEqual(ids(await status(origin, as, 'never')), ['oscar-cluster-a/never1']);
  assert.ok(!(await services(b)).includes('never2'));
});

test('cause: the reason why a member is unreachable is shown and logged once, and so is its recovery', async () => {
  const { origin, b, people } = them;
  const as = people.alice;
  await granted('cause');
  const { host } = new URL(b.wire.url);
  const logged = () =>
    origin.manager.log.filter((line) => line['member'] === 'oscar-cluster-b/cause2' && line['host'] === host);
  const add = async () => {
    const body = { replicas: [member(b, 'cause2')] };
    expectStatus(await origin.call('POST', '/system/replicas/cause', { as, body }), 200);
  };
  await b.wire.cut();
  try {
    await add();
    await add();
  } finally {
    await b.wire.mend();
  }
  const cause = 'cluster "oscar-cluster-b": "127.0.0.1" cannot be reached: ';
  const reason = (await status(origin, as, 'cause')).members?.[1]?.reason ?? '';
  assert.ok(reason.startsWith(cause), reason);
  assert.deepEqual(
    logged().map(({ msg, service }) => [msg, service]),
    [['member not up to date', 'cause']],
  );
  assert.ok(String(logged()[0]?.['cause']).startsWith(cause));
  await eventually(async () => {
    await add();
    assert.deepEqual(
      logged().map(({ msg }) => msg),
      ['member not up to date', 'member answers again'],
    );
  });
});
