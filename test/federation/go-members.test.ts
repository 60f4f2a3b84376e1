import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type SeenFederation } from '../support/federation.ts';
import { type GoManager, startGoManager } from '../support/go-manager.ts';
import { ALICE } from '../support/issuer.ts';
import { eventually } from '../support/jobs.ts';
import { ADMIN, startTestManager, type TestManager } from '../support/manager.ts';
import { type People, startPeople } from '../support/people.ts';

const opened = new AsyncDisposableStack();
let people: People;
let go: GoManager;
let second: GoManager;
let manager: TestManager;
before(async () => {
  people = await startPeople();
  opened.defer(() => people.issuer.stop());
  go = opened.use(await startGoManager());
  second = opened.use(await startGoManager());
  const clusters = {
    go: { endpoint: go.url, kind: 'upstream' },
    second: { endpoint: second.url, kind: 'upstream' },
  };
  const settings = {
    ...people.settings,
    OIDC_CLIENT_ID: 'oscar',
    OSCAR_CLUSTER_ID: 'here',
    OSCAR_RECONCILE_INTERVAL: '1',
    OSCAR_CLUSTERS: JSON.stringify(clusters),
  };
  manager = opened.use(await startTestManager(settings));
});
after(() => opened.disposeAsync());

const memberAt = (cluster: string, service: string) => ({ type: 'oscar', cluster_id: cluster, service_name: service });

interface Written {
  readonly script?: string;
  readonly members?: readonly object[];
  readonly [key: string]: unknown;
}

function bodyOf(name: string, { script = 'one', members = [memberAt('go', `${name}-go`)], ...more }: Written = {}) {
  return { name, image: 'busybox', script, ...more, federation: { topology: 'star', members } };
}

async function withToken(name: string, more: Written = {}) {
  const { refreshToken } = await people.issuer.tokensFor(ALICE);
  return { ...bodyOf(name, more), environment: { secrets: { refresh_token: refreshToken } } };
}

async function expect(expected: number, ...call: Parameters<TestManager['call']>) {
  const answer = await manager.call(...call);
  assert.equal(answer.status, expected, answer.text);
  return answer;
}

const create = async (name: string, more: Written = {}) =>
  expect(201, 'POST', '/system/services', { as: people.alice, body: await withToken(name, more) });

async function memberOf(name: string) {
  const answer = await expect(200, 'GET', `/system/federation/${name}?include=status`, { as: people.alice });
  return (answer.json() as SeenFederation).members?.[0];
}

const scriptAt = (at: GoManager, name: string) => at.services.get(name)?.['script'];

describe('a member whose manager is written in Go', () => {
  test('is made, and stays what it is when it is looked at again', async () => {
    await create('made');
    assert.equal((await memberOf('made'))?.state, 'ready');
    const { last_seen: seen } = (await memberOf('made')) ?? {};
    await eventually(async () => assert.notEqual((await memberOf('made'))?.last_seen, seen));
    const member = await memberOf('made');
    assert.deepEqual([member?.state, member?.reason], ['ready', undefined]);
    assert.ok(!go.seen.some((each) => /^PUT .*made-go/.test(each)));
  });

  test('follows a change by its owner', async () => {
    await create('changed');
    await expect(204, 'PUT', '/system/services', { as: people.alice, body: bodyOf('changed', { script: 'two' }) });
    assert.equal(scriptAt(go, 'changed-go'), 'two');
  });

  test('follows a change by the administrator, for whom a token of the owner is had', async () => {
    await create('managed');
    await expect(204, 'PUT', '/system/services', { as: ADMIN, body: bodyOf('managed', { script: 'two' }) });
    assert.equal(go.services.get('managed-go')?.owner, ALICE.sub);
    assert.equal(scriptAt(go, 'managed-go'), 'two');
  });

  test('is mended when somebody changed it there', async () => {
    await create('mended');
    const there = go.services.get('mended-go');
    assert.ok(there);
    go.services.set('mended-go', { ...there, script: 'not ours' });
    await eventually(() => assert.equal(scriptAt(go, 'mended-go'), 'one'));
  });

  test('is made again when it is gone there', async () => {
    await create('again');
    go.services.delete('again-go');
    await eventually(() => assert.equal(scriptAt(go, 'again-go'), 'one'));
  });

  test('is deleted when it is removed, and can be added again', async () => {
    await create('removed');
    const body = { members: [memberAt('go', 'removed-go')] };
    const removed = await expect(200, 'DELETE', '/system/federation/removed', { as: people.alice, body });
    assert.equal((removed.json() as SeenFederation).warnings, undefined);
    assert.ok(!go.services.has('removed-go'));
    await expect(200, 'POST', '/system/federation/removed', { as: people.alice, body });
    assert.ok(go.services.has('removed-go'));
  });

  test('that is let go stays, and is the same member when it is added again', async () => {
    await create('let-go');
    const body = { members: [memberAt('go', 'let-go-go')] };
    await expect(200, 'DELETE', '/system/federation/let-go', { as: people.alice, body: { ...body, delete: false } });
    assert.ok(go.services.has('let-go-go'));
    await expect(200, 'POST', '/system/federation/let-go', { as: people.alice, body });
    assert.equal((await memberOf('let-go'))?.state, 'ready');
  });

  for (const [who, as] of [
    ['its owner', () => people.alice],
    ['the administrator', () => ADMIN],
  ] as const) {
    test(`goes with the service, which ${who} deletes`, async () => {
      await create('deleted');
      await expect(204, 'DELETE', '/system/services/deleted', { as: as() });
      assert.ok(!go.services.has('deleted-go'));
    });
  }

  test('is undone when another member fails', async () => {
    const members = [memberAt('go', 'undone-go'), memberAt('second', 'undone-2')];
    const body = await withToken('undone', { members });
    const there = { name: 'undone-2', owner: ALICE.sub };
    // A name that is taken between the probe and the create.
    second.services.get = (name) => (second.seen.some((each) => each.includes(name)) ? there : undefined);
    try {
      const answer = await manager.call('POST', '/system/services', { as: people.alice, body });
      assert.equal(answer.status, 409, answer.text);
    } finally {
      Reflect.deleteProperty(second.services, 'get');
    }
    assert.ok(go.seen.some((each) => each.startsWith('DELETE /system/services/undone-go')));
    assert.ok(!go.services.has('undone-go'));
  });

  test('that cannot be told of the end is ended by the next create of its owner', async () => {
    await create('late');
    go.fails = 500;
    try {
      await expect(204, 'DELETE', '/system/services/late', { as: people.alice });
    } finally {
      go.fails = undefined;
    }
    assert.ok(go.services.has('late-go'));
    await create('late', { script: 'two' });
    assert.equal(scriptAt(go, 'late-go'), 'two');
  });

  test('of the administrator is asked with the account at that cluster', async () => {
    const account = { endpoint: go.url, auth_user: 'somebody', auth_password: 'secret' };
    const body = (script: string) => ({ ...bodyOf('account', { script }), clusters: { go: account } });
    const token = { environment: { secrets: { refresh_token: 'not used' } } };
    await expect(201, 'POST', '/system/services', { as: ADMIN, body: { ...body('one'), ...token } });
    const there = go.services.get('account-go');
    assert.equal(there?.owner, 'somebody');
    go.services.set('account-go', { ...there, script: 'not ours' });
    await eventually(() => assert.equal(scriptAt(go, 'account-go'), 'one'));
    await expect(204, 'DELETE', '/system/services/account', { as: ADMIN });
    assert.ok(!go.services.has('account-go'));
  });
});
