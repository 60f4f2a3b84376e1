import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type Clusters,
  create,
  expectStatus,
  federated,
  member,
  read,
  type SeenService,
  startClusters,
} from '../support/federation.ts';
import { ALICE } from '../support/issuer-users.ts';
import type { Seen } from '../support/wire.ts';

/** Unique values that the tests can find wherever they appear. */
const REFRESH_TOKEN = 'refresh-token-of-alice-4711';
const PROVIDER_KEY = 'provider-key-4712';
const CLUSTER_PASSWORD = 'cluster-password-4713';
const ENVIRONMENT_SECRET = 'environment-secret-4714';
const HEADER_SECRET = 'header-secret-4715';

let them: Clusters;
before(async () => {
  them = await startClusters();
});
after(() => them[Symbol.asyncDispose]());

/** A definition with everything that must not be sent to workers, and one secret that must. */
function laden(name: string, more: Record<string, unknown> = {}) {
  const { a, b, clusters } = them;
  const accounts = Object.entries(clusters).map(([id, cluster]) => [
    id,
    { ...cluster, auth_user: 'oscar', auth_password: CLUSTER_PASSWORD },
  ]);
  const keys = { access_key: PROVIDER_KEY, secret_key: PROVIDER_KEY, region: 'us-east-1' };
  const members = [member(a, `${name}1`), member(b, `${name}2`, { headers: { 'X-Key': HEADER_SECRET } })];
  return federated(name, members, Object.fromEntries(accounts), {
    storage_providers: {
      minio: { default: { endpoint: 'https://minio.example.org', verify: true, ...keys } },
      s3: { archive: keys },
    },
    namespace: 'kube-system',
    environment: { secrets: { refresh_token: REFRESH_TOKEN, PASSWORD: ENVIRONMENT_SECRET } },
    ...more,
  });
}

const bodies = (seen: readonly Seen[], name: string) =>
  seen.filter(({ body }) => body.includes(`"${name}"`)).map(({ body }) => JSON.parse(body) as SeenService);

test('worker: it gets the values of secrets, and nothing that only the coordinator may have (F20, F33, F36, F47)', async () => {
  const { origin, a, b, people } = them;
  await create(origin, people.alice, laden('sent'));
  for (const [{ wire }, name] of [
    [a, 'sent1'],
    [b, 'sent2'],
  ] as const) {
    const [sent] = bodies(wire.seen, name);
    assert.ok(sent);
    const text = JSON.stringify(sent);
    for (const secret of [REFRESH_TOKEN, PROVIDER_KEY, CLUSTER_PASSWORD, HEADER_SECRET]) {
      assert.ok(!text.includes(secret), `${secret} in ${text}`);
    }
    assert.deepEqual(sent.environment.secrets, { PASSWORD: ENVIRONMENT_SECRET });
    const providers = Object.values(sent.storage_providers ?? {}).flatMap((each) => Object.values(each));
    assert.equal(providers.length, 2);
    for (const { access_key, secret_key } of providers) assert.deepEqual([access_key, secret_key], ['', '']);
    assert.ok(!text.includes('kube-system') && !text.includes(ALICE.sub), 'no namespace, no owner');
    const { token } = await read(origin, people.alice, 'sent');
    assert.ok(!text.includes(token), 'nor the token of the coordinator’s service');
  }
});

test('worker: what it stores shows no more than that, and belongs to the user there (F33, F36, F47)', async () => {
  const { origin, a, people } = them;
  await create(origin, people.alice, laden('kept'));
  const own = await a.outside.call('GET', '/system/services/kept1', { as: people.alice });
  const text = expectStatus(own, 200).text;
  for (const secret of [REFRESH_TOKEN, PROVIDER_KEY, CLUSTER_PASSWORD, HEADER_SECRET, ENVIRONMENT_SECRET]) {
    assert.ok(!text.includes(secret), `${secret} in ${text}`);
  }
  const worker = own.json() as SeenService;
  assert.equal(worker.owner, ALICE.sub);
  assert.notEqual(worker.namespace, 'kube-system');
  assert.deepEqual(worker.environment.secrets, { PASSWORD: '' }, 'there is no refresh token to inject anywhere');
  assert.ok(Object.values(worker.clusters ?? {}).every((each) => each.auth_user === '' && each.auth_password === ''));
  assert.equal(worker.token.length, 64);
  assert.notEqual(worker.token, (await read(origin, people.alice, 'kept')).token, 'its token is of its own cluster');
});

test('worker: inputs and outputs keep the buckets of the origin', async () => {
  const { origin, a, people } = them;
  const paths = {
    input: [{ storage_provider: 'minio', path: 'paths/in' }],
    output: [{ storage_provider: 'minio', path: 'out' }],
  };
  await create(origin, people.alice, laden('paths', paths));
  const mine = await read(origin, people.alice, 'paths');
  const worker = await read(a, people.alice, 'paths1');
  assert.deepEqual(worker.input, mine.input);
  assert.deepEqual(worker.output, mine.output);
});

test('worker: the coordinator’s own definition is not that of a worker (F19)', async () => {
  const { origin, people } = them;
  await create(origin, people.alice, laden('mine', { annotations: { mine: 'yes' } }));
  const mine = await read(origin, people.alice, 'mine');
  assert.deepEqual(mine.annotations, { mine: 'yes' });
  assert.equal(mine.name, 'mine');
  assert.ok(!('refresh_token' in mine.environment.secrets) || mine.environment.secrets['refresh_token'] === '');
});

test('worker: scripts of a former worker get the real values of secrets, also after an update that left them blank (F20)', async () => {
  const { origin, a, people } = them;
  const as = people.alice;
  const script = '#!/bin/sh\necho "it is $PASSWORD and [$refresh_token]"\n';
  await create(origin, as, laden('told', { script }));
  const shown = await read(origin, as, 'told');
  expectStatus(await origin.call('PUT', '/system/services', { as, body: { ...shown, cpu: '0.2' } }), 204);
  const removal = { members: [member(a, 'told1')], delete: false };
  expectStatus(await origin.call('DELETE', '/system/federation/told', { as, body: removal }), 200);
  const { text } = expectStatus(await a.call('POST', '/run/told1', { as, body: 'x' }), 200);
  assert.match(text + Buffer.from(text, 'base64').toString(), new RegExp(`it is ${ENVIRONMENT_SECRET} and \\[\\]`));
});

test('worker: its annotations name its coordinator, federation and revision', async () => {
  const { origin, a, people } = them;
  await create(origin, people.alice, laden('shown'));
  const { annotations = {} } = await read(a, people.alice, 'shown1');
  const { 'oscar.grycap/federation-uid': uid, ...marks } = annotations;
  assert.deepEqual(marks, {
    'oscar.grycap/origin-cluster': 'oscar-cluster',
    'oscar.grycap/origin-service': 'shown',
    'oscar.grycap/federation-worker': 'true',
    'oscar.grycap/federation-revision': '1',
  });
  assert.match(uid ?? '', /^[0-9a-f-]{36}$/);
});

test('worker: its view shows that its data is in the store of the origin', async () => {
  const { origin, a, people } = them;
  await create(origin, people.alice, laden('stored'));
  const { storage_providers } = await read(a, people.alice, 'stored1');
  const { endpoint } = await origin.outside.provider(people.alice);
  assert.equal(storage_providers?.['minio']?.['default']?.['endpoint'], endpoint);
});
