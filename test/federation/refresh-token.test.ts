import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type Clusters,
  create,
  expectNothing,
  expectStatus,
  federated,
  member,
  startClusters,
  states,
  status,
} from '../support/federation.ts';
import { ALICE, BOB } from '../support/issuer-users.ts';
import { eventually } from '../support/jobs.ts';

let them: Clusters;
before(async () => {
  const settings = { OIDC_CLIENT_ID: 'oscar', OSCAR_RECONCILE_INTERVAL: '3600' };
  them = await startClusters({ registered: true, settings });
});
after(() => them[Symbol.asyncDispose]());

const newToken = async (user = ALICE) => (await them.people.issuer.tokensFor(user)).refreshToken;
const withToken = (refresh_token: string, more: object = {}) => ({
  environment: { secrets: { refresh_token } },
  ...more,
});
const send = (body: object, method: 'POST' | 'PUT' = 'POST') =>
  them.origin.call(method, '/system/services', { as: them.people.alice, body });

interface Conditions {
  readonly conditions?: readonly { readonly type: string; readonly reason: string }[];
}

test('refresh token: a create with a token that the issuer rejects is answered 400, and nothing is created', async () => {
  const answer = expectStatus(await send(federated('bad', [member(them.a, 'bad1')], {}, withToken('dummy'))), 400);
  assert.match(answer.text, /^environment\.secrets\.refresh_token: .*expired, revoked.*oscar login/);
  const bobs = federated('bad', [member(them.a, 'bad1')], {}, withToken(await newToken(BOB)));
  assert.match(expectStatus(await send(bobs), 403).text, /another user/);
  await expectNothing(them.all, ['bad', 'bad1']);
});

test('refresh token: after a create that failed for another reason, the same definition can be sent again', async () => {
  const { a, b, people, origin } = them;
  const token = await newToken();
  const body = federated('again', [member(a, 'again1'), member(b, 'again2')], {}, withToken(token));
  await create(b, people.bob, { ...federated('again2', [], {}), federation: undefined });
  const redeemed = people.issuer.requests.token;
  const failed = expectStatus(await send(body), 409);
  assert.match(failed.text, /again2: taken/);
  assert.equal(people.issuer.requests.token, redeemed + 1);
  expectStatus(await b.call('DELETE', '/system/services/again2', { as: people.bob }), 204);
  await create(origin, people.alice, body);
  assert.equal(people.issuer.requests.token, redeemed + 1, 'the token is redeemed once');
  const { conditions } = (await status(origin, people.alice, 'again')) as Conditions;
  assert.deepEqual(conditions, []);

  const other = federated('other', [member(a, 'other1')], {}, withToken(token));
  await create(origin, people.alice, other);
  assert.equal(people.issuer.requests.token, redeemed + 1, 'a known token is not redeemed again');
});

test('refresh token: while the issuer is away a create is answered 503, and works when the issuer is back', async () => {
  const { people, origin } = them;
  const body = federated('away', [member(them.a, 'away1')], {}, withToken(await newToken()));
  const restore = people.issuer.answerInstead('token', (_, response) => void response.writeHead(503).end());
  const answer = expectStatus(await send(body), 503);
  assert.match(answer.text, /issuer does not answer: try again/);
  assert.equal(answer.headers.get('retry-after'), '5');
  await expectNothing(them.all, ['away', 'away1']);
  restore();
  await eventually(async () => expectStatus(await send(body), 201));
  assert.deepEqual(states(await status(origin, people.alice, 'away')), ['oscar-cluster-a/away1: ready']);
});

test('refresh token: an update with a bad token changes nothing', async () => {
  const { people, origin, a } = them;
  await create(origin, people.alice, federated('kept', [member(a, 'kept1')], {}, withToken(await newToken())));
  const was = await status(origin, people.alice, 'kept');
  const changed = federated('kept', [member(a, 'kept1')], {}, withToken('dummy', { script: '#!/bin/sh\necho new\n' }));
  expectStatus(await send(changed, 'PUT'), 400);
  assert.deepEqual(await status(origin, people.alice, 'kept'), was);
});

test('refresh token: without members any text is accepted, and adding one answers 200 and shows the condition at once', async () => {
  const { people, origin, a } = them;
  await create(origin, people.alice, federated('text', [], {}, withToken('dummy-token-of-alice')));
  const as = people.alice;
  const body = { replicas: [member(a, 'text1')] };
  expectStatus(await origin.call('POST', '/system/replicas/text', { as, body }), 200);
  const seen = (await status(origin, as, 'text')) as Awaited<ReturnType<typeof status>> & Conditions;
  assert.deepEqual(states(seen), ['oscar-cluster-a/text1: ready']);
  assert.deepEqual(
    seen.conditions?.map(({ type }) => type),
    ['CredentialsExpired'],
  );
});

test('refresh token: it can be written as secrets.refresh_token beside environment', async () => {
  const { people, origin, a } = them;
  const { environment: _, ...body } = federated('top', [member(a, 'top1')], {});
  await create(origin, people.alice, { ...body, secrets: { refresh_token: await newToken() } });
  const { conditions } = (await status(origin, people.alice, 'top')) as Conditions;
  assert.deepEqual(conditions, []);
  const wrong = { ...body, name: 'top2', secrets: { refresh_token: 'x', KEY: 'y' } };
  assert.match(expectStatus(await send(wrong), 400).text, /secrets\.KEY: is not read here/);
  const two = { ...body, name: 'top2', secrets: { refresh_token: 'x' }, ...withToken('y') };
  assert.match(
    expectStatus(await send(two), 400).text,
    /refresh_token: differs from environment\.secrets\.refresh_token/,
  );
});
