import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { SeenFederation } from '../support/federation.ts';
import { type GoManager, startGoManager } from '../support/go-manager.ts';
import { ALICE } from '../support/issuer-users.ts';
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

describe('Go manager: a member', () => {
  test('is created, and is unchanged after the next check', async () => {
    await create('made');
    assert.equal((await memberOf('made'))?.state, 'ready');
    const { last_seen: seen } = (await memberOf('made')) ?? {};
    await eventually(async () => assert.notEqual((await memberOf('made'))?.last_seen, seen));
    const member = await memberOf('made');
    assert.deepEqual([member?.state, member?.reason], ['ready', undefined]);
    assert.match(member?.note ?? '', /^its manager is written in Go: /);
    assert.ok(!go.seen.some((each) => /^PUT .*made-go/.test(each)));
  });

  test('follows a change of its owner', async () => {
    await create('changed');
    await expect(204, 'PUT', '/system/services', { as: people.alice, body: bodyOf('changed', { script: 'two' }) });
    assert.equal(scriptAt(go, 'changed-go'), 'two');
  });

  test('follows a change of the administrator, who gets a token of the owner', async () => {
    await create('managed');
    await expect(204, 'PUT', '/system/services', { as: ADMIN, body: bodyOf('managed', { script: 'two' }) });
    assert.equal(go.services.get('managed-go')?.owner, ALICE.sub);
    assert.equal(scriptAt(go, 'managed-go'), 'two');
  });

  test('is repaired when it was changed there', async () => {
    await create('mended');
    const there = go.services.get('mended-go');
    assert.ok(there);
    go.services.set('mended-go', { ...there, script: 'not ours' });
    await eventually(() => assert.equal(scriptAt(go, 'mended-go'), 'one'));
  });

  test('is created again when it is gone there', async () => {
    await create('again');
    go.services.delete('again-go');
    await eventually(() => assert.equal(scriptAt(go, 'again-go'), 'one'));
  });

  test('is deleted when it is removed, and can be added again', async () => {
    await create('removed');
    const body = { members: [memberAt('go', 'removed-go')] };
    const removed = await expect(200, 'DELETE', '/system/federation/removed', { as: people.alice, body });
    assert.equal((removed.json() as SeenFederation).warnings, undefined);
    await eventually(() => assert.ok(!go.services.has('removed-go')));
    await expect(200, 'POST', '/system/federation/removed', { as: people.alice, body });
    await eventually(() => assert.ok(go.services.has('removed-go')));
  });

  test('that is detached stays, and is the same member when it is added again', async () => {
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
    test(`is deleted with the service when ${who} deletes it`, async () => {
      await create('deleted');
      await expect(204, 'DELETE', '/system/services/deleted', { as: as() });
      await eventually(() => assert.ok(!go.services.has('deleted-go')));
    });
  }

  test('is rolled back when another member fails', async () => {
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
    await eventually(() => assert.ok(go.seen.some((each) => each.startsWith('DELETE /system/services/undone-go'))));
    await eventually(() => assert.ok(!go.services.has('undone-go')));
  });

  test('is created beside another worker with the same bucket, and neither creates the bucket there', async () => {
    const files = { input: [{ storage_provider: 'minio.default', path: 'shared/in' }] };
    const members = [memberAt('go', 'bucket-1'), memberAt('go', 'bucket-2')];
    await create('shared', { ...files, output: [{ storage_provider: 'minio.default', path: 'shared/out' }], members });
    assert.deepEqual([...go.services.keys()].filter((name) => name.startsWith('bucket-')).length, 2);
    assert.deepEqual([...go.buckets.keys()], []);
    const worker = go.services.get('bucket-2') as Record<string, unknown>;
    assert.deepEqual(worker['federation'], { ...(worker['federation'] as object), topology: 'mesh' });
    assert.ok(!('members' in (worker['federation'] as object)));
  });

  test('that is deleted leaves a bucket of another user there', async () => {
    const output = [{ storage_provider: 'minio.default', path: 'kept/out' }];
    await create('kept', { output });
    go.buckets.set('kept', 'somebody-else');
    await expect(204, 'DELETE', '/system/services/kept', { as: people.alice });
    await eventually(() => assert.ok(!go.services.has('kept-go')));
    assert.equal(go.buckets.get('kept'), 'somebody-else');
    go.buckets.delete('kept');
  });

  test('is created anew only after the previous one is gone there', async () => {
    await create('slow');
    go.lingersFor = 2;
    const answers: number[] = [];
    try {
      await expect(204, 'DELETE', '/system/services/slow', { as: people.alice });
      await eventually(async () => {
        const { status } = await manager.call('POST', '/system/services', {
          as: people.alice,
          body: await withToken('slow', { script: 'two' }),
        });
        answers.push(status);
        assert.equal(status, 201);
      });
    } finally {
      go.lingersFor = 0;
    }
    assert.equal(scriptAt(go, 'slow-go'), 'two');
    assert.deepEqual(go.overlaps, []);
    // On a busy machine the answer may be to try again.
    assert.deepEqual(new Set([504, ...answers]), new Set([504, 201]));
  });

  test('is ready when it was seen after its create was answered', async () => {
    go.showsAfter = 2;
    try {
      await create('seen');
    } finally {
      go.showsAfter = 0;
    }
    const about = go.seen.filter((each) => each.startsWith('POST') || each.includes('/seen-go '));
    const made = about.findLastIndex((each) => each.startsWith('POST'));
    assert.match(about.slice(made).join('\n'), /GET .*: 404\n(.*\n)*GET .*: 200/);
    assert.equal((await memberOf('seen'))?.state, 'ready');
  });

  test('that fails is shown with the answer of its manager, without secrets', async () => {
    const { refreshToken } = await people.issuer.tokensFor(ALICE);
    const federation = { topology: 'star', deployment: 'best-effort', members: [memberAt('go', 'failing-go')] };
    const secrets = { refresh_token: refreshToken, KEY: 'hush-hush' };
    const body = { ...bodyOf('failing'), federation, environment: { secrets } };
    go.fails = { status: 500, text: 'quota of "hush-hush" exceeded:\n only 3 CPUs', method: 'POST' };
    try {
      await expect(201, 'POST', '/system/services', { as: people.alice, body });
      const member = await memberOf('failing');
      const reason = 'cluster "go" answered 500: quota of "[secret]" exceeded: only 3 CPUs';
      assert.deepEqual([member?.state, member?.reason], ['pending', reason]);
      const whole = await withToken('whole');
      const refused = await expect(424, 'POST', '/system/services', { as: people.alice, body: whole });
      assert.match(refused.text, /go\/whole-go: failed: cluster "go" answered 500: quota/);
    } finally {
      go.fails = undefined;
    }
  });

  test('that could not be told of the removal is ended by the next create of its owner', async () => {
    await create('late');
    go.fails = { status: 500 };
    try {
      await expect(204, 'DELETE', '/system/services/late', { as: people.alice });
    } finally {
      go.fails = undefined;
    }
    assert.ok(go.services.has('late-go'));
    await create('late', { script: 'two' });
    assert.equal(scriptAt(go, 'late-go'), 'two');
  });

  test('that is away while its service is deleted is named in a warning, and removed when it is back', async () => {
    await create('behind');
    go.fails = { status: 503 };
    const removed = await expect(204, 'DELETE', '/system/services/behind', { as: people.alice });
    const warning = removed.headers.get('x-oscar-warning') ?? '';
    assert.match(warning, /^go\/behind-go still exists: .*503.* delete it there$/);
    assert.equal(removed.text, '');
    go.fails = undefined;
    await eventually(() => assert.equal(go.services.has('behind-go'), false));
    await create('ahead');
    const ended = await expect(204, 'DELETE', '/system/services/ahead', { as: people.alice });
    assert.equal(ended.headers.get('x-oscar-warning'), null);
  });

  test('is created, changed, removed and created again at the pace of a real Go manager, and nothing overlaps', async () => {
    second.pace = process.env['OSCAR_TEST_LONG'] ? 1 : 0.02;
    try {
      const members = [memberAt('second', 'paced-go')];
      await create('paced', { members });
      const ready = async () => assert.equal((await memberOf('paced'))?.state, 'ready');
      await eventually(ready);
      const changed = { as: people.alice, body: await withToken('paced', { members, script: 'two' }) };
      assert.match(String((await manager.call('PUT', '/system/services', changed)).status), /^20[04]$/);
      await eventually(() => assert.equal(scriptAt(second, 'paced-go'), 'two'));
      await expect(204, 'DELETE', '/system/services/paced', { as: people.alice });
      await eventually(async () => void (await create('paced', { members })));
      await eventually(ready);
      assert.deepEqual(second.overlaps, []);
    } finally {
      second.pace = 0;
    }
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
    await eventually(() => assert.ok(!go.services.has('account-go')));
  });
});
