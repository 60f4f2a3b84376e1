import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { copying, delegatingBody, endedWell, placeOf, startDelegation } from '../support/delegation.ts';
import { type Clusters, create, expectStatus, member, read } from '../support/federation.ts';
import { type Issuer, startIssuer } from '../support/issuer.ts';
import { ALICE, BOB, type TestUser } from '../support/issuer-users.ts';
import { CAROL } from '../support/people.ts';

/**
 * Two clusters that accept the same two issuers, at which the same `sub` is another person. Each cluster names the users of
 * its own first issuer by their `sub`, and those of the other with an alias (decision 0057).
 */
let other: Issuer;
let them: Clusters;
const bearer = async (issuer: Issuer, user: TestUser) => `Bearer ${(await issuer.tokensFor(user)).accessToken}`;

before(async () => {
  other = await startIssuer({ users: [ALICE, BOB, CAROL] });
  them = await startDelegation({
    own: ({ issuer }) => ({
      'oscar-cluster': { OIDC_ISSUERS: `${issuer.url},${other.url}`, OIDC_ISSUER_ALIASES: `yy=${other.url}` },
      'oscar-cluster-a': { OIDC_ISSUERS: `${other.url},${issuer.url}`, OIDC_ISSUER_ALIASES: `xx=${issuer.url}` },
    }),
  });
});
after(async () => {
  await them[Symbol.asyncDispose]();
  await other.stop();
});

/** A federation of Alice of the first issuer, with a worker at cluster a. Resolves to its body. */
async function federation(name: string, more: Record<string, unknown>) {
  const { refreshToken } = await them.people.issuer.tokensFor(ALICE);
  const members = [member(them.a, `${name}-a`)];
  const body = delegatingBody(name, members, refreshToken, { script: copying(), ...more });
  await create(them.origin, them.people.alice, body);
  return body;
}

test('several issuers: a worker belongs to its owner, not to the same sub of another issuer', async () => {
  const { origin, a, people } = them;
  await federation('mine', {});
  assert.equal((await read(origin, people.alice, 'mine')).owner, ALICE.sub);
  assert.equal((await read(a, people.alice, 'mine-a')).owner, `xx~${ALICE.sub}`);

  const stranger = await bearer(other, ALICE);
  for (const [at, name] of [
    [origin, 'mine'],
    [a, 'mine-a'],
  ] as const) {
    expectStatus(await at.call('GET', `/system/services/${name}`, { as: stranger }), 404);
    expectStatus(await at.call('DELETE', `/system/services/${name}`, { as: stranger }), 404);
    expectStatus(await at.call('POST', `/job/${name}`, { as: stranger, body: 'x' }), 404);
  }
  const id = await origin.outside.submit(people.alice, 'mine', 'an event');
  assert.equal(placeOf(await endedWell(origin, people.alice, 'mine', id)), a.id, 'offers prove the owner');
});

test('several issuers: users who are allowed at the coordinator are the same persons at the worker', async () => {
  const { origin, a, people } = them;
  const [bob, otherBob, otherCarol] = [people.bob, await bearer(other, BOB), await bearer(other, CAROL)];
  const status = async (as: string) => [
    (await origin.call('GET', '/system/services/shared', { as })).status,
    (await a.call('GET', '/system/services/shared-a', { as })).status,
  ];
  const sees = { visibility: 'restricted', allowed_users: [BOB.sub, `yy~${CAROL.sub}`] };
  await federation('shared', sees);
  assert.deepEqual(await status(bob), [200, 200]);
  assert.deepEqual(await status(otherBob), [404, 404]);
  assert.deepEqual(await status(otherCarol), [200, 200]);
  assert.deepEqual(await status(people.carol), [404, 404]);

  const { json } = await origin.call('GET', '/system/services/shared', { as: people.alice });
  const changed = { ...(json() as object), allowed_users: [`yy~${BOB.sub}`], environment: { secrets: {} } };
  expectStatus(await origin.call('PUT', '/system/services', { as: people.alice, body: changed }), 204);
  assert.deepEqual(await status(bob), [404, 404]);
  assert.deepEqual(await status(otherBob), [200, 200]);
});

test('several issuers: a job that enters at a worker is shown to its caller, not to the same sub of another issuer', async () => {
  const { origin, a, people } = them;
  const [bob, otherBob] = [people.bob, await bearer(other, BOB)];
  await federation('open', { visibility: 'public' });
  for (const [as, stranger, invoker] of [
    [bob, otherBob, BOB.sub],
    [otherBob, bob, `yy~${BOB.sub}`],
  ] as const) {
    const answer = expectStatus(await a.call('POST', '/job/open-a', { as, body: 'x' }), 201);
    const id = answer.headers.get('x-oscar-job-id') ?? '';
    assert.equal((await endedWell(origin, people.alice, 'open', id)).invoker, invoker);
    expectStatus(await origin.call('GET', `/system/jobs/open/${id}`, { as }), 200);
    expectStatus(await origin.call('GET', `/system/jobs/open/${id}`, { as: stranger }), 404);
  }
});
