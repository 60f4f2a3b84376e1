import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Secret } from '../../lib/secret.ts';
import { type Credential, FederationError, type FederationErrorCode, type Peer, PeerError } from '../../peers/index.ts';
import type { Coordination } from './coordination.ts';
import { createFederation } from './create-federation.ts';
import { Ledgers } from './ledger.ts';
import { alice, coordination, federatedBody, type World, worldOf } from './model/coordinator.fixture.ts';
import { openPassage, type Passage } from './model/model-cluster.fixture.ts';
import { remoteService } from './model/model-manager.fixture.ts';
import { toEndingLedger } from './remove-federation.ts';

const admin = { kind: 'admin' } as const;
const snapshots = ({ managers }: World) => [...managers.values()].map((each) => each.snapshot());
const isEmpty = ({ cluster }: World) => cluster.services.size + cluster.journal.size + cluster.secrets.size === 0;

function refuses(promise: Promise<unknown>, code: FederationErrorCode, ...says: RegExp[]): Promise<void> {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof FederationError, String(error));
    assert.equal(error.code, code, error.message);
    for (const each of says) assert.match(error.message, each);
    return true;
  });
}

/** A world in which requests of one kind fail. */
const failing = (isHit: (cluster: string, call: string) => boolean, fault: () => Error): Passage => ({
  ...openPassage,
  request: (cluster, call, effect) => {
    if (isHit(cluster, call)) throw fault();
    return effect();
  },
});
const unreachable = () => new PeerError('unreachable', 'it did not answer');

test('create: time spent freeing the name counts against the members’ deadline', async () => {
  const world = worldOf('b', 'c');
  const { record } = await createFederation(alice, federatedBody(['b']), coordination(world));
  const uid = record.service.federation?.uid ?? '';
  const clock = { now: 1_000 };
  const passage: Passage = {
    ...openPassage,
    request: (cluster, call, effect) => {
      if (cluster === 'c' && call === 'create') return new Promise(() => {}) as ReturnType<typeof effect>;
      if (call !== 'remove') return effect();
      clock.now += 30;
      throw unreachable();
    },
  };
  const budgets = { oscar: { probe: 60_000, create: 40, undo: 30 } };
  const deps = coordination(world, passage, { budgets, now: () => clock.now });
  await new Ledgers(deps).amend(uid, (ledger) => toEndingLedger(ledger, 'undo', clock.now));
  const late = /c\/demo-c: unreachable: it has not answered within 0\.01 s/;
  await refuses(createFederation(alice, federatedBody(['c']), deps), 'member-unreachable', late);
});

describe('create: success', () => {
  test('every member has the same uid, and the service accepts jobs', async () => {
    const world = worldOf('b', 'c');
    const { record, pending } = await createFederation(alice, federatedBody(['b', 'c']), coordination(world));
    assert.deepEqual(pending, []);
    const role = record.service.federation;
    assert.ok(role?.role === 'coordinator' && role.committed && role.revision === 1);
    for (const [id, manager] of world.managers) {
      const worker = manager.services.get(`demo-${id}`)?.worker;
      assert.equal(worker?.uid, role.uid);
      assert.equal(worker.revision, 1);
    }
    const entry = await new Ledgers(coordination(world)).read(role.uid);
    assert.equal(entry?.ledger.phase, 'active');
    assert.equal(entry.ledger.serviceUid, record.service.uid);
    assert.deepEqual(
      entry.ledger.members.map(({ state }) => state),
      ['made', 'made'],
    );
  });

  test('members get the secrets of the service, but not the refresh token', async () => {
    const world = worldOf('b');
    await createFederation(alice, federatedBody(['b']), coordination(world));
    const body = world.managers.get('b')?.services.get('demo-b')?.body ?? '';
    assert.deepEqual(JSON.parse(body).environment.secrets, { PASSWORD: 'pw' });
    assert.doesNotMatch(body, /"refresh-token"/);
  });

  test('a service of the caller with the name of a member is adopted', async () => {
    const world = worldOf('b');
    world.managers.get('b')?.services.set('demo-b', remoteService('alice'));
    await createFederation(alice, federatedBody(['b']), coordination(world));
    const adopted = world.managers.get('b')?.services.get('demo-b');
    assert.ok(adopted?.worker && adopted.before);
  });

  test('several members on one manager are accepted if they are different services', async () => {
    const world = worldOf('b');
    const { managers } = world;
    const there = managers.get('b');
    assert.ok(there);
    const twice = { ...world, managers: new Map([...managers, ['b2', there]]) };
    await createFederation(alice, federatedBody(['b', 'b2']), coordination(twice));
    assert.deepEqual([...there.services.keys()], ['demo-b', 'demo-b2']);
  });

  test('nothing is deployed to a member that is a URL', async () => {
    const world = worldOf();
    const body = federatedBody([]);
    const endpoint = { type: 'endpoint', url: 'https://anywhere.example/' };
    const { record } = await createFederation(
      alice,
      { ...body, federation: { members: [endpoint] } },
      coordination(world),
    );
    const role = record.service.federation;
    assert.ok(role?.role === 'coordinator' && role.committed);
  });
});

describe('create: a rejected create changes nothing', () => {
  const untouched = async (world: World, create: Promise<unknown>, code: FederationErrorCode, ...says: RegExp[]) => {
    const before = structuredClone(snapshots(world));
    await refuses(create, code, ...says);
    assert.deepEqual(snapshots(world), before);
    assert.ok(isEmpty(world));
  };

  test('without a refresh token', async () => {
    const world = worldOf('b');
    const body = { ...federatedBody(['b']), environment: { secrets: { refresh_token: ' ' } } };
    await untouched(world, createFederation(alice, body, coordination(world)), 'no-grant', /refresh_token is required/);
  });

  test('with an unknown cluster', async () => {
    const world = worldOf('b');
    const create = createFederation(alice, federatedBody(['x', 'b', 'y']), coordination(world));
    await untouched(world, create, 'invalid-federation', /cluster "x" is unknown/, /cluster "y" is unknown/);
  });

  test('with more members than the cluster allows', async () => {
    const world = worldOf('b', 'c');
    const create = createFederation(
      alice,
      federatedBody(['b', 'c']),
      coordination(world, openPassage, { mostMembers: 1 }),
    );
    await untouched(world, create, 'invalid-federation', /has 2 members, but this cluster allows at most 1 /);
  });

  test('every member is listed with its reason, and the worst reason decides the code', async () => {
    const world = worldOf('b', 'c', 'd', 'e');
    world.managers.get('c')?.services.set('demo-c', remoteService('bob'));
    const passage = failing((cluster) => cluster === 'd', unreachable);
    const create = createFederation(alice, federatedBody(['b', 'c', 'd']), coordination(world, passage));
    await untouched(
      world,
      create,
      'member-taken',
      /^nothing was created: not every member of "demo" can be created:\n/,
      /^ {2}b\/demo-b: ok$/m,
      /^ {2}c\/demo-c: taken: another service there has this name: choose another$/m,
      /^ {2}d\/demo-d: unreachable: it did not answer$/m,
    );
  });

  const codes: [PeerError['code'], FederationErrorCode][] = [
    ['refused', 'member-refused'],
    ['unreachable', 'member-unreachable'],
    ['failed', 'member-failed'],
  ];
  for (const [fault, code] of codes) {
    test(`a probe that is ${fault} gives ${code}`, async () => {
      const world = worldOf('b');
      const passage = failing(
        () => true,
        () => new PeerError(fault, 'because'),
      );
      await untouched(
        world,
        createFederation(alice, federatedBody(['b']), coordination(world, passage)),
        code,
        /because/,
      );
    });
  }

  test('when two ids are one service of one manager', async () => {
    const { cluster, managers } = worldOf('b');
    const there = managers.get('b');
    assert.ok(there);
    const world = {
      cluster,
      managers: new Map([
        ['b', there],
        ['b2', there],
      ]),
    };
    const members = ['b', 'b2'].map((cluster_id) => ({ cluster_id, service_name: 'same' }));
    const body = { ...federatedBody([]), federation: { members } };
    await untouched(
      world,
      createFederation(alice, body, coordination(world)),
      'member-taken',
      /b2\/same: taken: it is the same/,
    );
  });

  test('when a member is the service itself under another id', async () => {
    const world = worldOf('b');
    const { instance = '' } = world.managers.get('b') ?? {};
    const deps = coordination(world);
    const body = { ...federatedBody([]), federation: { members: [{ cluster_id: 'b', service_name: 'demo' }] } };
    const here = { ...deps.here, instance };
    await untouched(
      world,
      createFederation(alice, body, { ...deps, here }),
      'invalid-federation',
      /b\/demo is the service itself/,
    );
  });

  test('when a member does not answer in time', async () => {
    const world = worldOf('b');
    const never = (): Promise<never> => new Promise(() => {});
    const peers = { at: () => ({ probe: never }) as unknown as Peer };
    const deps = { ...coordination(world), peers, budgets: { oscar: { probe: 5 } } };
    await untouched(
      world,
      createFederation(alice, federatedBody(['b']), deps),
      'member-unreachable',
      /not answered within 0.005 s/,
    );
  });
});

describe('create: a member fails', () => {
  for (const call of ['create', 'adopt']) {
    test(`members that succeeded and members with an unknown result are rolled back at once (${call})`, async () => {
      const world = worldOf('b', 'c');
      if (call === 'adopt')
        for (const [id, each] of world.managers) each.services.set(`demo-${id}`, remoteService('alice'));
      const before = structuredClone(snapshots(world));
      // The request takes effect, but its answer is lost.
      const passage: Passage = {
        ...openPassage,
        request: (cluster, kind, effect) => {
          const answer = effect();
          if (cluster === 'c' && kind === call) throw unreachable();
          return answer;
        },
      };
      const create = createFederation(alice, federatedBody(['b', 'c']), coordination(world, passage));
      await refuses(create, 'member-unreachable', /"demo" was not created/, /b\/demo-b: ok/);
      assert.deepEqual(snapshots(world), before);
      assert.ok(isEmpty(world));
    });
  }

  test('a rollback that fails stays in the ledger, and the next create finishes it first', async () => {
    const world = worldOf('b', 'c');
    const passage = failing(
      (cluster, call) => (cluster === 'c' && call === 'create') || call === 'remove',
      unreachable,
    );
    await refuses(
      createFederation(alice, federatedBody(['b', 'c']), coordination(world, passage)),
      'member-unreachable',
    );
    const [left] = await Array.fromAsync(new Ledgers(coordination(world)).all());
    assert.equal(left?.ledger.phase, 'ending');
    assert.deepEqual(
      left.ledger.members.map(({ state, reason }) => [state, reason]),
      [
        ['undoing', 'it did not answer'],
        ['undoing', 'it did not answer'],
      ],
    );
    assert.equal(world.cluster.services.size, 0, 'the name is free again');

    const { record } = await createFederation(alice, federatedBody(['b', 'c']), coordination(world));
    const uid = record.service.federation?.uid;
    assert.equal(world.managers.get('b')?.services.get('demo-b')?.worker?.uid, uid);
    assert.equal(await new Ledgers(coordination(world)).read(left.ledger.uid), undefined);
  });

  test('members are not asked if the service cannot be created here', async () => {
    const world = worldOf('b');
    const calls: string[] = [];
    const passage: Passage = {
      ...openPassage,
      request: (_cluster, call, effect) => {
        calls.push(call);
        return effect();
      },
    };
    const deps = coordination(world, passage);
    const plan = async () => {
      throw new Error('the image is not allowed');
    };
    await assert.rejects(
      createFederation(alice, federatedBody(['b']), { ...deps, own: { ...deps.own, plan } }),
      /not allowed/,
    );
    assert.deepEqual(calls, []);
    assert.ok(isEmpty(world));
  });

  test('everything is rolled back if creating the service here fails later', async () => {
    const world = worldOf('b');
    const deps = coordination(world);
    const create = async () => {
      throw new Error('the name was taken just now');
    };
    await assert.rejects(
      createFederation(alice, federatedBody(['b']), { ...deps, own: { ...deps.own, create } }),
      /just now/,
    );
    assert.equal(world.managers.get('b')?.services.size, 0);
    assert.ok(isEmpty(world));
  });

  test('it stops if another manager has claimed its ledger', async () => {
    const world = worldOf('b');
    const deps = coordination(world);
    const meddling: Coordination = {
      ...deps,
      own: {
        ...deps.own,
        create: async (...parameters) => {
          const record = await deps.own.create(...parameters);
          for await (const entry of new Ledgers(deps).all()) await new Ledgers(deps).claim(entry);
          return record;
        },
      },
    };
    await refuses(
      createFederation(alice, federatedBody(['b']), meddling),
      'federation-gone',
      /abandoned while it was being created/,
    );
    assert.ok(isEmpty(world));
  });
});

describe('create: another manager takes over the create', () => {
  test('members are not asked after the ledger was claimed by another manager', async () => {
    const world = worldOf('b');
    const calls: string[] = [];
    const passage: Passage = {
      ...openPassage,
      request: (_cluster, call, effect) => {
        calls.push(call);
        return effect();
      },
    };
    const deps = coordination(world, passage);
    const put: Coordination['secrets']['put'] = async (...parameters) => {
      for await (const entry of new Ledgers(deps).all()) await new Ledgers(deps).claim(entry);
      return deps.secrets.put(...parameters);
    };
    const create = createFederation(alice, federatedBody(['b']), { ...deps, secrets: { ...deps.secrets, put } });
    await refuses(create, 'federation-gone');
    assert.deepEqual(calls, ['probe']);
    assert.ok(isEmpty(world));
  });

  test('a service that was created after the rollback is removed', async () => {
    const world = worldOf('b');
    const deps = coordination(world);
    const create: Coordination['own']['create'] = async (...parameters) => {
      world.cluster.journal.clear();
      return deps.own.create(...parameters);
    };
    await refuses(
      createFederation(alice, federatedBody(['b']), { ...deps, own: { ...deps.own, create } }),
      'federation-gone',
    );
    assert.equal(world.cluster.services.size, 0);
  });
});

describe('create: best-effort', () => {
  const body = federatedBody(['b', 'c'], { federation: { deployment: 'best-effort' } });

  test('unreachable members are created later, and the answer says so', async () => {
    const world = worldOf('b', 'c');
    const passage = failing((cluster) => cluster === 'c', unreachable);
    const { record, pending } = await createFederation(alice, body, coordination(world, passage));
    assert.deepEqual(pending, [{ member: 'c/demo-c', reason: 'it did not answer' }]);
    const role = record.service.federation;
    assert.ok(role?.role === 'coordinator' && role.committed);
    const entry = await new Ledgers(coordination(world)).read(role.uid);
    assert.deepEqual(
      entry?.ledger.members.map(({ state }) => state),
      ['made', 'wanted'],
    );
  });
});

describe('create: credentials', () => {
  /** The credentials that each cluster received. */
  async function shown(caller: Parameters<typeof createFederation>[0], more: Record<string, unknown>, self?: string) {
    const world = worldOf('b', 'c');
    const seen = new Map<string, Credential>();
    for (const [id, manager] of world.managers) {
      manager.accepts = (as) => {
        seen.set(id, as);
        return true;
      };
    }
    const isSelf: Coordination['isSelf'] = ({ clusterId }) => clusterId === self;
    await createFederation(caller, federatedBody(['b', 'c'], more), coordination(world, openPassage, { isSelf }));
    return Object.fromEntries(
      [...seen].map(([id, as]) => [
        id,
        as.kind === 'basic' ? `${as.username}:${as.password.reveal()}` : as.token.reveal(),
      ]),
    );
  }

  const account = (id: string) => ({
    endpoint: `https://${id}.example`,
    auth_user: `at-${id}`,
    auth_password: `pw-${id}`,
  });
  const password = new Secret('the administrator’s own');
  const basic = { principal: admin, credential: { kind: 'basic', username: 'oscar', password } } as const;

  test('a user is authenticated everywhere with the access token, even if the definition has accounts', async () => {
    const accounts = { clusters: { b: account('b'), c: account('c') } };
    assert.deepEqual(await shown(alice, accounts), { b: 'access-token-of-alice', c: 'access-token-of-alice' });
  });

  test('an administrator uses accounts on other clusters, and the credential of the request here (F30)', async () => {
    const accounts = { clusters: { c: account('c') } };
    assert.deepEqual(await shown(basic, accounts, 'b'), { b: 'oscar:the administrator’s own', c: 'at-c:pw-c' });
  });

  test('an administrator without an account on the cluster is rejected', async () => {
    const create = shown(basic, { clusters: { c: account('c') } });
    await refuses(
      create,
      'member-refused',
      /b\/demo-b: refused: no account is known for this cluster: set clusters\.b\.auth_user/,
    );
  });
});

test('create: a name that an unfinished create holds on this cluster is freed first', async () => {
  const world = worldOf('b');
  const stuck = coordination(world);
  const remove = async () => {
    throw new Error('the store is away');
  };
  const passage = failing((_cluster, call) => call === 'create', unreachable);
  const first = { ...coordination(world, passage), own: { ...stuck.own, remove } };
  await refuses(createFederation(alice, federatedBody(['b']), first), 'member-unreachable');
  assert.ok(world.cluster.services.has('demo'), 'it could not be removed');
  await createFederation(alice, federatedBody(['b']), coordination(world));
  assert.equal([...world.cluster.journal.keys()].length, 1);
});
