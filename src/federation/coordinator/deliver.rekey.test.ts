import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { OscarError } from '../../lib/oscar-error.ts';
import { Secret } from '../../lib/secret.ts';
import { PeerError } from '../../peers/index.ts';
import type { Audited } from '../audit.ts';
import { parseMembersChange } from '../members.ts';
import { changeFederation, changeMembers } from './change-federation.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { type LedgerMember, Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, memberOn, type World, worldOf } from './model/coordinator.fixture.ts';
import { Crash, openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { Reconciler } from './reconcile.ts';
import { removeFederation } from './remove-federation.ts';

class OscarErrorOfMint extends OscarError {}

const DAY = 24 * 3_600_000;

async function scene(more: Partial<Coordination> = {}, passage: Passage = openPassage) {
  const world = worldOf('b');
  const manager = world.managers.get('b');
  assert.ok(manager);
  const clock = { now: 1_000_000_000 };
  const audited: Audited[] = [];
  const as = (through: Passage, others: Partial<Coordination> = {}) =>
    coordination(world, through, { now: () => clock.now, audit: (event) => audited.push(event), ...more, ...others });
  await createFederation(alice, federatedBody(['b']), as(openPassage));
  const keyThere = () => manager.services.get('demo-b')?.worker?.keyId;
  return { world, manager, clock, audited, as, deps: as(passage), keyThere, first: keyThere() };
}

async function memberOf(world: World): Promise<LedgerMember> {
  const [entry] = await Array.fromAsync(new Ledgers(coordination(world)).all());
  const member = entry?.ledger.members[0];
  assert.ok(member);
  return member;
}

const memberKeys = ({ cluster }: World) =>
  [...cluster.secrets.keys()].filter((key) => key.startsWith('member ')).map((key) => key.slice('member '.length));

const put = (deps: Coordination, script = 'new') =>
  changeFederation(alice, { ...federatedBody([]), script }, undefined, deps);

describe('re-key: a PUT of the owner', () => {
  test('every member gets another key, and the old one is deleted', async () => {
    const { world, deps, keyThere, first, audited } = await scene();
    assert.deepEqual((await put(deps)).pending, []);
    assert.notEqual(keyThere(), first);
    const { keyId, nextKeyId, revision, keyedAt } = await memberOf(world);
    assert.deepEqual([keyId, nextKeyId, revision, keyedAt], [keyThere(), undefined, 2, deps.now()]);
    assert.deepEqual(memberKeys(world), [keyThere()]);
    assert.deepEqual(audited, [
      {
        what: 'rekeyed',
        service: 'demo',
        uid: world.cluster.services.get('demo')?.service.federation?.uid,
        member: 'b/demo-b',
      },
    ]);
  });

  test('a member that rejects the token is updated with its present key', async () => {
    const { manager, deps, keyThere, first, world } = await scene();
    manager.accepts = () => false;
    assert.deepEqual((await put(deps)).pending, []);
    assert.equal(keyThere(), first);
    assert.equal((await memberOf(world)).revision, 2);
  });

  test('a change of members replaces no key', async () => {
    const { deps, keyThere, first } = await scene();
    await changeMembers(alice, 'demo', parseMembersChange('PUT', { members: [memberOn('b')] }), deps);
    assert.equal(keyThere(), first);
  });
});

/** The first request of a kind is lost before or after it takes effect, or the manager crashes at it. */
function losing(call: string, when: 'before' | 'after', error: Error): Passage {
  let isOver = false;
  return {
    ...openPassage,
    request: (_cluster, each, effect) => {
      if (isOver || each !== call) return effect();
      isOver = true;
      if (when === 'after') effect();
      throw error;
    },
  };
}

describe('re-key: a failure while a key is being replaced', () => {
  const faults = [
    ['its answer is lost', 'after', new PeerError('unreachable', 'it did not answer')],
    ['it is lost itself', 'before', new PeerError('unreachable', 'it did not answer')],
    ['the manager dies before it arrives', 'before', new Crash()],
    ['the manager dies after it arrived', 'after', new Crash()],
  ] as const;
  for (const [name, when, error] of faults) {
    for (const isOldGood of [true, false]) {
      test(`${name}: both keys are stored, and one works${isOldGood ? '' : ' after the old one has expired'}`, async () => {
        const { world, manager, deps, as, keyThere } = await scene({}, losing('rekey', when, error));
        await put(deps).catch((reason: unknown) => assert.ok(reason instanceof Crash));
        const { keyId, nextKeyId } = await memberOf(world);
        assert.deepEqual(memberKeys(world).toSorted(), [keyId, nextKeyId ?? ''].toSorted());
        if (!isOldGood) manager.formerKeys.clear();
        await new Reconciler(as(openPassage)).pass();
        const member = await memberOf(world);
        assert.deepEqual([member.state, member.revision, member.reason], ['made', 2, undefined]);
        await put(as(openPassage), 'newer');
        assert.equal((await memberOf(world)).keyId, keyThere());
        assert.deepEqual(memberKeys(world), [keyThere()]);
      });

      test(`${name}: the federation can still be removed everywhere${isOldGood ? '' : ' after the old one has expired'}`, async () => {
        const { world, manager, deps, as } = await scene({}, losing('rekey', when, error));
        await put(deps).catch((reason: unknown) => assert.ok(reason instanceof Crash));
        if (!isOldGood) manager.formerKeys.clear();
        const record = world.cluster.services.get('demo');
        assert.ok(record);
        assert.equal((await removeFederation(record, { cascade: true }, as(openPassage))).length, 0);
        assert.equal(manager.services.size, 0);
        assert.deepEqual(memberKeys(world), []);
      });
    }
  }
});

describe('re-key: a key that is 90 days old', () => {
  test('it is replaced if a token can be obtained', async () => {
    const { world, clock, as, keyThere, first } = await scene();
    const deps = as(openPassage, { getOwnerToken: async () => new Secret('minted') });
    clock.now += 90 * DAY;
    await new Reconciler(deps).pass();
    assert.equal(keyThere(), first);
    clock.now += 1;
    await new Reconciler(deps).pass();
    assert.notEqual(keyThere(), first);
    assert.equal((await memberOf(world)).keyId, keyThere());
    const second = keyThere();
    clock.now += DAY;
    await new Reconciler(deps).pass();
    assert.equal(keyThere(), second);
  });

  test('it stays if no token can be obtained', async () => {
    const { world, clock, as, keyThere, first } = await scene();
    clock.now += 91 * DAY;
    await new Reconciler(as(openPassage)).pass();
    assert.equal(keyThere(), first);
    for (const error of [new OscarErrorOfMint('credentials-expired', 'it has expired'), new Error('a fault')]) {
      const expired = as(openPassage, {
        getOwnerToken: async () => {
          throw error;
        },
      });
      await new Reconciler(expired).pass();
      const { state, reason } = await memberOf(world);
      assert.deepEqual([keyThere(), state, reason], [first, 'made', undefined]);
    }
  });
});

describe('re-key: a coordinator restored from a backup', () => {
  async function restored(more: Partial<Coordination> = {}) {
    const made = await scene(more);
    const { cluster } = made.world;
    const backup = [cluster.journal, cluster.secrets, cluster.services].map((each) => structuredCloneOf(each));
    await put(made.deps);
    await put(made.deps, 'newest');
    [cluster.journal, cluster.secrets, cluster.services].forEach((each, index) => restore(each, backup[index]));
    return made;
  }
  const structuredCloneOf = (map: Map<string, unknown>) => new Map(map);
  function restore(map: Map<string, unknown>, from: Map<string, unknown> | undefined): void {
    map.clear();
    for (const [key, value] of from ?? []) map.set(key, value);
  }

  test('members with newer keys are shown as key lost', async () => {
    const { world, as, keyThere } = await restored();
    const there = keyThere();
    await new Reconciler(as(openPassage)).pass();
    const { state, reason } = await memberOf(world);
    assert.deepEqual([state, reason, keyThere()], ['conflict', 'key lost: update the service once with PUT', there]);
  });

  test('one PUT of the owner repairs its members, with a revision above theirs', async () => {
    const { world, as, keyThere, manager, audited } = await restored();
    await put(as(openPassage), 'after');
    await new Reconciler(as(openPassage, { getOwnerToken: async () => new Secret('minted') })).pass();
    const { state, keyId } = await memberOf(world);
    assert.deepEqual([state, keyId], ['made', keyThere()]);
    assert.match(manager.services.get('demo-b')?.body ?? '', /"script":"after"/);
    assert.ok(audited.some(({ what, revision }) => what === 'restored' && (revision ?? 0) > 3));
  });

  test('it repairs its members itself if a token can be obtained', async () => {
    const { world, as, keyThere, audited } = await restored();
    await new Reconciler(as(openPassage, { getOwnerToken: async () => new Secret('minted') })).pass();
    const { state, keyId, revision } = await memberOf(world);
    assert.deepEqual([state, keyId, revision], ['made', keyThere(), 4]);
    assert.ok(audited.some(({ what }) => what === 'restored'));
  });
});
