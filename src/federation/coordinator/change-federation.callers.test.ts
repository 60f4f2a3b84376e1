import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import { Secret } from '../../lib/secret.ts';
import { type Credential, FederationError } from '../../peers/index.ts';
import { parseMembersChange } from '../members.ts';
import { made, post, remove, serviceOf, states } from './change-federation.fixture.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import { alice, coordination, federatedBody, memberOn, type World } from './model/coordinator.fixture.ts';
import { openPassage } from './model/model-cluster.fixture.ts';

describe('members: an administrator adds members to the federation of a user', () => {
  const admin = {
    principal: { kind: 'admin' },
    credential: { kind: 'basic', username: 'oscar', password: new Secret('of this cluster') },
  } as const;
  const isSelf = () => true;
  const account = { endpoint: 'https://c.example', auth_user: 'oscar', auth_password: 'of that cluster' };
  const adding = parseMembersChange('POST', { members: [memberOn('c')], clusters: { c: account } });

  /** The credentials with which cluster c was asked. */
  function askedBy(world: World): Credential[] {
    const asked: Credential[] = [];
    const manager = world.managers.get('c');
    if (manager) manager.accepts = (as) => asked.push(as) > 0;
    return asked;
  }

  test('they are created with the grant of the owner, belong to the owner, and use no account of the administrator', async () => {
    const world = await made('b');
    const asked = askedBy(world);
    const getOwnerToken = async () => new Secret('of alice');
    const { pending } = await changeMembers(
      admin,
      'demo',
      adding,
      coordination(world, openPassage, { getOwnerToken, isSelf }),
    );
    assert.deepEqual(pending, []);
    assert.ok(asked.length > 0 && asked.every((as) => as.kind === 'bearer' && as.token.reveal() === 'of alice'));
  });

  test('without a grant they stay pending until the owner acts', async () => {
    const world = await made('b');
    const asked = askedBy(world);
    const { pending } = await changeMembers(admin, 'demo', adding, coordination(world, openPassage, { isSelf }));
    assert.deepEqual(pending, [
      { member: 'c/demo-c', reason: 'no credentials for this member are stored: update the service once with PUT' },
    ]);
    const body = { ...federatedBody(['b', 'c', 'd']), clusters: { c: account } };
    await changeFederation(admin, body, undefined, coordination(world, openPassage, { isSelf }));
    assert.deepEqual(asked, []);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'wanted', 'd/demo-d': 'wanted' });
    await changeFederation(alice, federatedBody([]), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made', 'd/demo-d': 'made' });
  });
});

describe('members: added with the token of the service', () => {
  const token = { principal: { kind: 'service-token', service: 'demo' } } as const;
  const forbidden = (error: unknown) => error instanceof OscarError && error.code === 'not-allowed';

  test('a new member is created at once with the grant of the owner', async () => {
    const world = await made('b');
    const asked: Credential[] = [];
    const manager = world.managers.get('c');
    if (manager) manager.accepts = (as) => asked.push(as) > 0;
    const getOwnerToken = async () => new Secret('of alice');
    const { pending } = await changeMembers(
      token,
      'demo',
      post('c'),
      coordination(world, openPassage, { getOwnerToken }),
    );
    assert.deepEqual(pending, []);
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made' });
    assert.ok(asked.length > 0 && asked.every((as) => as.kind === 'bearer' && as.token.reveal() === 'of alice'));
  });

  test('a new member without a grant stays pending', async () => {
    const world = await made('b');
    const { pending } = await changeMembers(token, 'demo', post('c'), coordination(world));
    assert.deepEqual(
      pending.map(({ member }) => member),
      ['c/demo-c'],
    );
    assert.match(pending[0]?.reason ?? '', /update the service once with PUT/);
    await changeFederation(alice, federatedBody([]), undefined, coordination(world));
    assert.deepEqual(await states(world), { 'b/demo-b': 'made', 'c/demo-c': 'made' });
  });

  test('an existing member does not change', async () => {
    const world = await made('b');
    const again = parseMembersChange('POST', { members: [{ ...memberOn('b'), priority: 9 }] });
    await changeMembers(token, 'demo', again, coordination(world));
    assert.equal(serviceOf(world).definition.federation?.members?.[0]?.priority, 0);
  });

  const others = {
    'members are not removed': remove('b'),
    'members are not changed': parseMembersChange('PUT', { members: [memberOn('b')] }),
    'no clusters are named': parseMembersChange('POST', {
      members: [memberOn('c')],
      clusters: { c: { endpoint: 'https://c' } },
    }),
    'no headers are set': parseMembersChange('POST', { members: [{ ...memberOn('c'), headers: { a: 'b' } }] }),
    'no URL is added': parseMembersChange('POST', { members: [{ type: 'endpoint', url: 'https://anywhere' }] }),
  };
  for (const [name, intention] of Object.entries(others)) {
    test(name, async () => {
      const world = await made('b');
      await assert.rejects(changeMembers(token, 'demo', intention, coordination(world)), forbidden);
    });
  }
});

test('members: a worker is told to change members at the coordinator', async () => {
  const world = await made('b');
  const deps = coordination(world);
  const current = await deps.services.get('demo');
  assert.ok(current);
  const origin = { clusterId: 'o', service: 'origin', endpoint: 'https://o.example', store: '' };
  const federation = {
    role: 'worker',
    uid: 'u',
    revision: 1,
    keyId: 'k',
    digest: 'd',
    origin,
    adopted: false,
  } as const;
  await deps.services.replace({ ...current.service, federation }, current.version);
  await assert.rejects(
    changeMembers(alice, 'demo', post('c'), deps),
    (error) =>
      error instanceof FederationError &&
      error.code === 'not-the-coordinator' &&
      /https:\/\/o\.example/.test(error.message),
  );
});
