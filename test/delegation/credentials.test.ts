import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import {
  allEnded,
  copying,
  delegating,
  delegatingBody,
  endedWell,
  inState,
  offersTo,
  placeOf,
  startDelegation,
  storyOf,
} from '../support/delegation.ts';
import { type Clusters, create, expectStatus, federated, member, type TestCluster } from '../support/federation.ts';
import { BOB } from '../support/issuer-users.ts';
import { clientOf, eventually, Meeting, type Provider, type SeenJob } from '../support/jobs.ts';
import { type Order, orderOf, type Signing, sign } from '../support/signed.ts';

let them: Clusters;
const meeting = new Meeting();
before(async () => {
  them = await startDelegation();
});
after(async () => {
  meeting[Symbol.dispose]();
  await them[Symbol.asyncDispose]();
});

/** Uploads one more file, and resolves to its job. */
async function upload(name: string, n: number, as = them.people.alice): Promise<SeenJob> {
  const { origin } = them;
  await origin.outside.put(as, `${name}/in/${n}`, `${n}`);
  const [job] = await allEnded(origin, as, name, n);
  assert.equal(job?.state, 'succeeded', job && storyOf(job));
  assert.equal(await origin.outside.get(as, `${name}/out/${n}`), `${n}`);
  return job;
}

/** The condition of the federation that its owner sees, for example an expired refresh token. */
async function conditionOf(name: string): Promise<{ readonly type: string; readonly reason: string } | undefined> {
  const path = `/system/federation/${name}?include=status`;
  const { json } = expectStatus(await them.origin.call('GET', path, { as: them.people.alice }), 200);
  return (json() as { conditions?: { type: string; reason: string }[] }).conditions?.[0];
}

describe('owner token: members that know the member key need none', () => {
  test('owner token: jobs are delegated after it is revoked, and the federation says so', async () => {
    const { origin, a, people } = them;
    const name = 'revoked';
    await delegating(them, name, [member(a, name)], { script: copying() });
    assert.equal(placeOf(await upload(name, 1)), a.id);
    expectStatus(await origin.call('DELETE', `/system/federation/${name}/token`, { as: people.bob }), 404);
    expectStatus(await origin.call('DELETE', `/system/federation/${name}/token`, { as: people.alice }), 204);
    const condition = await conditionOf(name);
    assert.equal(condition?.type, 'CredentialsExpired');
    assert.match(condition.reason, /^revoked by its owner: send a new refresh token$/);
    assert.equal(placeOf(await upload(name, 2)), a.id);
  });

  test('owner token: a token of another user is rejected, and creates nothing', async () => {
    const { origin, a, people } = them;
    const { refreshToken } = await people.issuer.tokensFor(BOB);
    const body = delegatingBody('strange', [member(a, 'strange')], refreshToken, { script: copying() });
    expectStatus(await origin.call('POST', '/system/services', { as: people.alice, body }), 403);
    expectStatus(await a.call('GET', '/system/services/strange', { as: people.alice }), 404);
  });

  test('owner token: jobs are delegated while the issuer is down', async () => {
    const { origin, a, people } = them;
    await delegating(them, 'issuerless', [member(a, 'issuerless')], { script: copying() });
    await origin.outside.s3(people.alice);
    await people.issuer.stop();
    try {
      const job = await upload('issuerless', 1);
      assert.equal(placeOf(job), a.id, storyOf(job));
    } finally {
      await people.issuer.start();
    }
  });
});

test('owner token: a job of a service of the administrator is delegated with the member key alone', async () => {
  const { origin, a } = them;
  const clusters = { [a.id]: { endpoint: a.wire.url, auth_user: 'oscar', auth_password: a.password } };
  const body = { ...delegatingBody('ruled', [member(a, 'ruled')], 'not used', { script: copying() }), clusters };
  await create(origin, origin.admin, body);
  const job = await upload('ruled', 1, origin.admin);
  assert.equal(placeOf(job), a.id, storyOf(job));
  const offers = offersTo(a, 'ruled');
  assert.equal(offers.length, 1);
  assert.equal(offers[0]?.headers.authorization, undefined);
  assert.ok(!JSON.stringify(a.wire.seen).includes(origin.password));
});

describe('offer: a worker accepts jobs from its coordinator only', () => {
  let order: Order;
  let id: string;
  before(async () => {
    const { origin, a, b, people } = them;
    await delegating(them, 'kept', [member(a, 'kept-a'), member(b, 'kept-b', { priority: 1 })], {
      script: `${meeting.say('kept', 'begun')}; ${meeting.wait('kept-go')}; ${copying()}`,
    });
    await origin.outside.put(people.alice, 'kept/in/x', 'x');
    await meeting.heard('kept');
    order = orderOf(a, 'kept-a');
    id = (await origin.outside.jobs(people.alice, 'kept'))[0]?.id ?? '';
  });

  /** Another offer to the worker, as an attacker who knows the protocol would send it. */
  const offer = (from: string): Signing => ({
    method: 'POST',
    path: '/job/kept-a',
    body: JSON.stringify({
      storage_provider: 'default',
      event: 'x',
      offer: { job: `kept/${id}`, epoch: 9, trigger: 'job', pinned: false, from },
    }),
  });
  const ask = (at: TestCluster, signing: Signing, headers: Record<string, string>, as?: string) =>
    at.call(signing.method, signing.query ? `${signing.path}?${signing.query}` : signing.path, {
      headers,
      ...(as !== undefined && { as }),
      ...(signing.body !== undefined && { body: signing.body }),
    });

  test('offer: rejected without the member key, for every sender', async () => {
    const { origin, a, people } = them;
    const words = offer(origin.id);
    const forged = sign({ ...order, key: 'f'.repeat(64) }, words);
    expectStatus(await ask(a, words, forged, people.alice), 401);
    expectStatus(await ask(a, words, forged), 401);
    expectStatus(await ask(a, words, {}, people.bob), 404);
    expectStatus(await ask(a, words, {}), 401);
    const jobs = await a.outside.jobs(a.admin, 'kept-a');
    assert.equal(jobs.filter(({ state }) => state === 'queued' || state === 'offering').length, 0);
  });

  test('offer: rejected with the key of another federation, even one with a member at the same cluster', async () => {
    const { origin, a, people } = them;
    const { refreshToken } = await people.issuer.tokensFor(BOB);
    const environment = { secrets: { refresh_token: refreshToken } };
    const body = federated('bobs', [member(a, 'bobs-a')], {}, { federation: { topology: 'star' }, environment });
    await create(origin, people.bob, body);
    const bobs = orderOf(a, 'bobs-a');
    const words = offer(origin.id);
    for (const as of [bobs, { ...bobs, member: order.member }, { ...order, key: bobs.key }]) {
      for (const credential of [people.bob, people.alice]) {
        const { status } = await ask(a, words, sign(as, words), credential);
        assert.ok([401, 403, 404, 410].includes(status), String(status));
      }
    }
    const permit = { method: 'GET', path: '/system/config', query: `job=kept/${id}&epoch=1` };
    for (const as of [bobs, { ...bobs, member: order.member }, { ...order, key: bobs.key }]) {
      const { status } = await ask(origin, permit, sign(as, permit));
      assert.ok([401, 404, 409, 410].includes(status), String(status));
    }
  });

  test('permit: only the member with the attempt gets one, and each signature is valid once', async () => {
    const { origin, b } = them;
    const permit = { method: 'GET', path: '/system/config', query: `job=kept/${id}&epoch=1` };
    const headers = sign(order, permit);
    expectStatus(await ask(origin, permit, headers), 200);
    expectStatus(await ask(origin, permit, headers), 401);
    const other = { ...permit, query: `job=kept/${id}&epoch=2` };
    expectStatus(await ask(origin, other, sign(order, other)), 409);
    expectStatus(await ask(origin, permit, sign(orderOf(b, 'kept-b'), permit)), 409);
    const report = {
      method: 'POST',
      path: `/system/federation/kept/jobs/${id}/attempts/1`,
      body: JSON.stringify({ state: 'succeeded', finished_at: 1, reason: 'x', message: 'x', manifest: 'a'.repeat(64) }),
    };
    expectStatus(await ask(origin, report, sign(orderOf(b, 'kept-b'), report)), 409);
    expectStatus(await ask(origin, report, {}), 401);
  });

  test('permit: its keys only read the input and write to staging, and are revoked when the job ends (F34)', async () => {
    const { origin, people } = them;
    const permit = { method: 'GET', path: '/system/config', query: `job=kept/${id}&epoch=1` };
    const given = (await ask(origin, permit, sign(order, permit))).json() as {
      minio_provider: Provider & { session_token?: string };
      staging: { bucket: string; prefix: string };
    };
    const { access_key, secret_key, session_token, endpoint, region } = given.minio_provider;
    const hers = await origin.outside.provider(people.alice);
    assert.notEqual(access_key, hers.access_key);
    const client = clientOf({ endpoint, region, access_key, secret_key });
    if (session_token) {
      const credentials = { accessKeyId: access_key, secretAccessKey: secret_key, sessionToken: session_token };
      client.config.credentials = async () => credentials;
    }
    const get = (Bucket: string, Key: string) => client.send(new GetObjectCommand({ Bucket, Key }));
    const put = (Bucket: string, Key: string) => client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
    await get('kept', 'in/x');
    await put(given.staging.bucket, `${given.staging.prefix}extra`);
    await origin.outside.put(people.alice, 'kept/elsewhere/y', 'y');
    for (const denied of [
      () => get('kept', 'elsewhere/y'),
      () => put('kept', 'out/x'),
      () => put('kept', 'in/x'),
      () => put(given.staging.bucket, 'kept/another/1/x'),
      () => put(given.staging.bucket, `kept/${id}/2/x`),
    ]) {
      await assert.rejects(denied, { name: 'AccessDenied' });
    }
    meeting.letGo('kept-go');
    await endedWell(origin, people.alice, 'kept', id);
    await eventually(() => assert.rejects(get('kept', 'in/x')));
    await assert.rejects(put(given.staging.bucket, `${given.staging.prefix}later`));
    assert.deepEqual(await origin.outside.keys(people.alice, 'kept'), ['elsewhere/y', 'in/x', 'out/x']);
    expectStatus(await ask(origin, permit, sign(order, permit)), 409);
  });
});

test('owner token: a member that records everything gets none in the whole life of jobs and of its worker (F32)', async () => {
  const { origin, a, people } = them;
  const name = 'open';
  const since = a.wire.seen.length;
  const script = `echo printed; ${meeting.wait('open-go')}; ${copying()}`;
  await delegating(them, name, [member(a, name)], { script, visibility: 'public' });
  const made = a.wire.seen.length;

  const id = await origin.outside.submit(people.alice, name, 'x');
  await eventually(async () => {
    const log = await origin.call('GET', `/system/logs/${name}/${id}`, { as: people.alice });
    assert.match(expectStatus(log, 200).text, /printed/);
  });
  expectStatus(await origin.call('DELETE', `/system/jobs/${name}/${id}`, { as: people.alice }), 202);
  await inState(origin, people.alice, name, id, 'cancelled');
  meeting.letGo('open-go');
  await endedWell(origin, people.bob, name, await origin.outside.submit(people.bob, name, 'x'));
  const change = { members: [member(a, name, { priority: 3 })] };
  expectStatus(await origin.call('PUT', `/system/federation/${name}`, { as: people.alice, body: change }), 200);
  expectStatus(await origin.call('DELETE', `/system/services/${name}`, { as: people.alice }), 204);
  await eventually(async () =>
    expectStatus(await a.call('GET', `/system/services/${name}`, { as: people.alice }), 404),
  );

  const kinds = (seen: typeof a.wire.seen) =>
    seen.map(
      ({ method, path }) => `${method} ${path.replace(/\?.*/, '').replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '<id>')}`,
    );
  const life = a.wire.seen.slice(made);
  for (const call of [
    `POST /job/${name}`,
    `GET /system/logs/${name}/${name}-<id>`,
    `DELETE /system/jobs/${name}/${name}-<id>`,
    `PUT /system/services/${name}/federation`,
    `DELETE /system/services/${name}/federation`,
  ]) {
    assert.ok(kinds(life).includes(call), `${call}: ${[...new Set(kinds(life))].join(', ')}`);
  }
  // A JWT and a refresh token of the issuer, wherever in the message.
  for (const { method, path, headers, body } of life) {
    assert.equal(headers.authorization, undefined, `${method} ${path}`);
    const text = JSON.stringify({ path, headers, body });
    assert.doesNotMatch(text, /\beyJ[\w-]+\.[\w-]+\./, `${method} ${path}`);
    for (const login of [people.bob, people.alice]) assert.ok(!text.includes(login.slice('Bearer '.length)));
  }
  // Creating a worker proves who owns it, so these two have the token of the caller (docs/security.md).
  const tokens = a.wire.seen.slice(since).filter(({ headers }) => headers.authorization !== undefined);
  assert.deepEqual(
    new Set(kinds(tokens)),
    new Set([`GET /system/services/${name}/federation`, 'POST /system/services']),
  );
});
